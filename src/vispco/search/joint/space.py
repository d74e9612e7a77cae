"""The joint space: which chains are candidates, and which shapes make sense for each of them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from vispco import kernels
from vispco.core.errors import InvalidInputError
from vispco.cost import BudgetWarning, counts_for_budget
from vispco.kernels import Kernel
from vispco.pruner.found_shape import deployed_gamma
from vispco.scorers import Chain, ChainLike
from vispco.search.objective import Objective
from vispco.search.shapes.initial import GOLDEN, initial_shapes

PRE_LLM = ("divprune", "cdpruner")
"""Scorers that choose before the language model, as candidates."""
IN_LLM = ("fastv", "sparsevlm", "fitprune(site=entry)", "v2drop")
"""Scorers that choose inside it."""


def default_chains() -> tuple[Chain, ...]:
    """Every scorer alone, and every one before the language model followed by every one inside it."""
    names = (*PRE_LLM, *IN_LLM, *(f"{first}+{then}" for first in PRE_LLM for then in IN_LLM))
    return tuple(Chain.of(name) for name in names)


def servable_chains() -> tuple[Chain, ...]:
    """Chains that can prune once, before layer 0, which serving engines can run."""
    return tuple(Chain.of(name) for name in (*PRE_LLM, "uniform"))


def candidate_chains(*, servable: bool = False, cacheable: bool = False) -> tuple[Chain, ...]:
    """The chains of a search that names none. cacheable: those whose choice is the same for every question."""
    chains = servable_chains() if servable else default_chains()
    return tuple(chain for chain in chains if not (cacheable and chain.reads_question))


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
    def at(cls, objective: Objective, budget: float, size: Tensor, *, servable: bool = False) -> ChainShapes:
        """All shapes that come to different tokens at a budget for a sample of a typical size [1, 4], simple ones first.

        Every scorer of the chain has a choice: a shape that drops nothing, or all, where one of them rules is a shape of the
        chain without it. `servable`: one step, before layer 0.
        """
        chain, num_layers = objective.scorer, objective.cost.num_layers
        own = replace(joint_kernel(servable=servable), earliest_layer=chain.earliest_layer)
        every = initial_shapes(own, num_layers)
        if servable:
            every = every[:1]  # simple ones come first: one step at layer 0
        counts = typical_counts(objective, every, budget, size, servable=servable)
        _, place = torch.unique(counts, dim=0, return_inverse=True)
        first = torch.full((int(place.max()) + 1,), len(every))
        first = first.scatter_reduce(0, place, torch.arange(len(every)), reduce="amin").sort().values
        used = _every_scorer_drops(chain, counts[first], int(size[0, 1]))
        if bool(used.any()):  # at a high budget curves are lifted until their first step is gone
            first = first[used]
        return cls(chain, every[first], counts[first].double() / size[:, 1].clamp_min(1))

    def __len__(self) -> int:
        return len(self.params)

    def spread(self, limit: int, seed: int = 0) -> list[int]:
        """Places of at most so many: the first one, and others spread evenly over the rest."""
        if len(self) <= limit:
            return list(range(len(self)))
        hops = (torch.arange(1, len(self), dtype=torch.float64) * GOLDEN + 0.31 * seed) % 1.0
        return [0, *(hops.argsort()[: limit - 1] + 1).sort().values.tolist()]

    def nearest(self, good: Tensor, count: int) -> list[int]:
        """Places of the `count` shapes nearest to one of the good curves [G, L], the nearest first."""
        away = torch.cdist(self.curves, good, p=1.0).min(-1).values
        return away.argsort(stable=True)[:count].tolist()


def typical_counts(
    objective: Objective, params: Tensor, budget: float, size: Tensor, *, servable: bool = False
) -> Tensor:
    """Tokens [N, L] of shapes [N, P] at a budget, for a sample of a typical size [1, 4] under the objective's chain."""
    kernel, N = joint_kernel(servable=servable), len(params)
    own = objective.workload(size)
    budgets = torch.full((N,), budget, dtype=torch.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BudgetWarning)
        return counts_for_budget(
            kernel, params, budgets, own.repeat(N), objective.cost, gamma=deployed_gamma(kernel), fill=False
        )


def _every_scorer_drops(chain: Chain, counts: Tensor, num_visual: int) -> Tensor:
    """Whether each scorer of a chain of several has a choice, and one before layer 0 has it there: bool [N].

    A scorer that drops all tokens chooses nothing.
    """
    before = torch.cat([torch.full_like(counts[:, :1], num_visual), counts[:, :-1]], dim=-1)
    drops = (counts < before) & (counts > 0)
    used = counts[:, 0] < num_visual if chain.earliest_layer == 0 else torch.ones(len(counts), dtype=torch.bool)
    starts = [layer for layer, _ in chain.stages]
    if len(starts) > 1:
        for start, end in zip(starts, [*starts[1:], counts.shape[1]], strict=True):
            used = used & drops[:, start:end].any(-1)
    return used


def check_chains(chains: Sequence[ChainLike], *, servable: bool = False, cacheable: bool = False) -> tuple[Chain, ...]:
    """Chains that a joint search can take, or a sentence."""
    found = tuple(dict.fromkeys(Chain.of(chain) for chain in chains))
    for chain in found:
        if servable and chain.earliest_layer > 0:
            raise InvalidInputError(
                f"--servable keeps to configurations that prune before layer 0, and {chain.name!r} begins at layer "
                f"{chain.earliest_layer}. Give scorers such as {', '.join(PRE_LLM)}."
            )
        if cacheable and chain.reads_question:
            raise InvalidInputError(
                f"--cacheable keeps to choices that are the same for every question, and {chain.name!r} reads the question. "
                f"Give scorers such as {', '.join(str(each) for each in candidate_chains(cacheable=True))}."
            )
    return found
