"""Configurations: a chain, a shape, and the level that they were measured at; the result of a joint search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from vispco.core.errors import InvalidInputError
from vispco.cost import Cost, Workload
from vispco.cost.workload import Array
from vispco.scorers import Chain

_LEVEL_PENALTY = 1e4  # a level that is not the nearest one is worse than any KL
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Configurations:
    """K configurations. chains: those that are used. chain: int64 [K], the number of each one's chain.

    params: [K, P], of the kernel. level: float64 [K], the level at which it was measured; it serves budgets near it. A level
    is a share of what can be pruned: 0 is the floor of the text alone, 1 the unpruned model. So it means the same for a
    small picture and a large one.
    """

    chains: tuple[Chain, ...]
    chain: Tensor
    params: Tensor
    level: Tensor

    def __len__(self) -> int:
        return len(self.level)

    @cached_property
    def levels(self) -> list[float]:
        """The budget levels, from small to large."""
        return sorted(set(self.level.numpy().tolist()))

    def places(self, number: int) -> Tensor:
        """Which of them are of a chain: int64 [k]."""
        return (self.chain == number).nonzero()[:, 0]

    def take(self, index: Sequence[int] | Tensor) -> Configurations:
        """Some of them; chains that none of them uses are left out."""
        index = torch.as_tensor(index, dtype=torch.int64)
        used = sorted(set(self.chain[index].tolist()))
        number = {old: new for new, old in enumerate(used)}
        chain = torch.tensor([number[int(old)] for old in self.chain[index]], dtype=torch.int64)
        return Configurations(tuple(self.chains[old] for old in used), chain, self.params[index], self.level[index])

    def best(self, estimate: Array, budget: Array, floors: Array) -> Array:
        """The configuration with the least estimated KL [B, K] at the level that serves each budget [B]: int64 [B].

        floors: float64 [B, 1 + chains], what a sample spends at least: with text alone, and under each chain. A chain that
        exceeds a sample's budget is left out, unless all do.
        """
        levels = self.level.numpy().astype(np.float32)
        level = nearest_level(level_of(budget, floors[:, 0]), self.levels)
        ranked = estimate + _LEVEL_PENALTY * np.abs(levels - level[:, None].astype(np.float32))
        infeasible = (floors[:, 1:] > budget[:, None] + _ROUNDING)[:, self.chain.numpy()]
        affordable = np.where(infeasible, np.inf, ranked)
        none = np.isinf(affordable).all(axis=-1, keepdims=True)
        found: Array = np.where(none, ranked, affordable).argmin(-1)
        return found

    @staticmethod
    def join(parts: Sequence[Configurations]) -> Configurations:
        """All of several, each chain once."""
        chains = tuple(dict.fromkeys(chain for part in parts for chain in part.chains))
        chain = [torch.tensor([chains.index(part.chains[int(n)]) for n in part.chain]) for part in parts]
        return Configurations(
            chains,
            torch.cat(chain).long(),
            torch.cat([part.params for part in parts]),
            torch.cat([part.level for part in parts]),
        )


def text_floor(text: Tensor, visual: Tensor, cost: Cost) -> Tensor:
    """The cost of samples [B] without any visual token, as a fraction of the unpruned model: float64 [B]."""
    return cost.lowest_fraction(Workload(text, visual, "entry", 0)).double()


def budget_at(level: float | Tensor, floor: Tensor) -> Tensor:
    """The budget of a level, for samples with these floors [B]: [B]."""
    return floor + level * (1.0 - floor)


def level_of(budget: float | Array | Tensor, floor: Array | Tensor) -> Array:
    """The level of a budget, for samples with these floors [B]: [B]; 0 where the budget lies under the floor."""
    least = np.asarray(floor, dtype=np.float64)
    found: Array = ((np.asarray(budget) - least) / (1.0 - least).clip(1e-9)).clip(0.0, 1.0)
    return found


def nearest_level(level: Array | Tensor, levels: Sequence[float]) -> Array:
    """Of the levels that have configurations, the one that serves each: [B] -> [B]. Half-way between two, the higher."""
    if not levels:
        raise InvalidInputError("There are no configurations to choose from. Search again.")
    known = np.array(sorted(levels), dtype=np.float64)
    middle = (known[1:] + known[:-1]) / 2
    found: Array = known[np.searchsorted(middle, np.asarray(level, dtype=np.float64), side="right")]
    return found
