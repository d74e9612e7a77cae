"""The joint space: which chains are candidates, and which shapes make sense for each of them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from vispco import kernels
from vispco.cost import BudgetWarning, Workload, counts_for_budget
from vispco.errors import InvalidInputError
from vispco.kernels import Kernel
from vispco.planning.found_shape import deployed_gamma
from vispco.scorers import Chain, ChainLike
from vispco.search.objective import Objective
from vispco.search.shapes.initial import GOLDEN, initial_shapes

BEFORE = ("divprune", "cdpruner")
"""Scorers that choose before the language model, as candidates."""
INSIDE = ("fastv", "sparsevlm", "fitprune(site=entry)", "v2drop")
"""Scorers that choose inside it."""


def default_chains() -> tuple[Chain, ...]:
    """Every scorer alone, and every one before the language model followed by every one inside it."""
    names = (*BEFORE, *INSIDE, *(f"{first}+{then}" for first in BEFORE for then in INSIDE))
    return tuple(Chain.of(name) for name in names)


def servable_chains() -> tuple[Chain, ...]:
    """Chains that can prune once, before layer 0, which serving engines can run."""
    return tuple(Chain.of(name) for name in (*BEFORE, "uniform"))


def read_chains(text: str) -> tuple[Chain, ...]:
    """Chains as a person types them, separated by commas: 'fastv,divprune+fastv'. Brackets may hold commas."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    found = tuple(dict.fromkeys(Chain.of(part.strip()) for part in parts if part.strip()))
    if not found:
        raise InvalidInputError(f"No scorers were named in {text!r}. Write fastv,divprune+fastv or leave it out.")
    return found


def joint_kernel(*, servable: bool = False) -> Kernel:
    """The curves of the joint space: up to three steps, the first possibly before the language model; servable: one."""
    return kernels.get("steps", earliest_layer=0, steps=1 if servable else 3)


@dataclass(frozen=True, eq=False)
class ChainShapes:
    """The shapes of one chain that differ at a budget. params: [N, P]. curves: [N, L], the shares that they keep."""

    chain: Chain
    params: Tensor
    curves: Tensor

    @classmethod
    def at(cls, objective: Objective, budget: float, size: Workload, *, servable: bool = False) -> ChainShapes:
        """All shapes that come to different tokens at a budget for a sample of a typical size, simple ones first.

        A chain with a scorer before the language model uses it: its shapes drop tokens there. Those that do not are the
        shapes of the same chain without it. `servable`: one step, before layer 0.
        """
        chain, num_layers = objective.scorer, objective.cost.num_layers
        kernel = joint_kernel(servable=servable)
        own = replace(kernel, earliest_layer=chain.earliest_layer)
        every = initial_shapes(own, num_layers)
        curves = kernel(every, num_layers, gamma=deployed_gamma(kernel))
        if chain.earliest_layer == 0:
            every = every[curves[:, 0] < 1.0]
        if servable:
            every = every[:1]  # simple ones come first: one step at layer 0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BudgetWarning)
            counts = counts_for_budget(
                kernel,
                every,
                torch.full((len(every),), budget, dtype=torch.float64),
                replace(size, site=chain.sites(num_layers), earliest_layer=chain.earliest_layer).repeat(len(every)),
                objective.cost,
                gamma=deployed_gamma(kernel),
                fill=False,
            )
        _, place = torch.unique(counts, dim=0, return_inverse=True)
        first = torch.full((int(place.max()) + 1,), len(every))
        first = first.scatter_reduce(0, place, torch.arange(len(every)), reduce="amin").sort().values
        if chain.earliest_layer == 0 and bool((used := counts[first, 0] < size.num_visual).any()):
            first = first[used]  # at a high budget a curve may be lifted until its first step is gone
        return cls(chain, every[first], counts[first].double() / size.num_visual.clamp_min(1))

    def __len__(self) -> int:
        return len(self.params)

    def spread(self, limit: int, seed: int = 0) -> list[int]:
        """Places of at most so many: the first one, and others spread evenly over the rest."""
        if len(self) <= limit:
            return list(range(len(self)))
        hops = (torch.arange(1, len(self), dtype=torch.float64) * GOLDEN + 0.31 * seed) % 1.0
        return [0, *(hops.argsort()[: limit - 1] + 1).sort().values.tolist()]

    def nearest(self, good: Sequence[int], seen: Sequence[int], count: int) -> list[int]:
        """Places of the `count` shapes nearest to one of the good ones that have not been seen."""
        away = torch.cdist(self.curves, self.curves[list(good)], p=1.0).min(-1).values
        away[list(seen)] = torch.inf
        return away.argsort(stable=True)[: min(count, len(self) - len(seen))].tolist()


def check_chains(chains: Sequence[ChainLike], *, servable: bool = False) -> tuple[Chain, ...]:
    """Chains that a joint search can take, or a sentence."""
    found = tuple(dict.fromkeys(Chain.of(chain) for chain in chains))
    for chain in found:
        if servable and chain.earliest_layer > 0:
            raise InvalidInputError(
                f"--servable keeps to configurations that prune before layer 0, and {chain.name!r} begins at layer "
                f"{chain.earliest_layer}. Give scorers such as {', '.join(BEFORE)}."
            )
    return found
