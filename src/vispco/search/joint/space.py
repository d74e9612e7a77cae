"""The joint space: which chains are candidates, and which shapes make sense for each of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from vispco import kernels
from vispco.core.errors import InvalidInputError
from vispco.cost import Cost
from vispco.kernels import Kernel
from vispco.pruner.budget_planner import BudgetPlanner, static_shape
from vispco.scorers import Chain, ChainLike
from vispco.scorers.chain import split_outside
from vispco.search.initial_shapes import initial_shapes
from vispco.search.objective import Objective
from vispco.search.shape_pool import ShapePool

_PRE_LLM = ("divprune", "cdpruner")
"""Scorers that choose before the language model, as candidates."""
_IN_LLM = ("fastv", "sparsevlm", "fitprune(site=entry)", "v2drop")
"""Scorers that choose inside it."""
_ALONE = ("fitprune",)
"""Scorers whose tokens leave elsewhere than those of the others: they share no batch with them."""


def default_chains() -> tuple[Chain, ...]:
    """Every scorer alone, and every one before the language model followed by every one inside it."""
    names = (*_PRE_LLM, *_IN_LLM, *_ALONE, *(f"{first}+{then}" for first in _PRE_LLM for then in _IN_LLM))
    return tuple(Chain.of(name) for name in names)


def single_selectors(budget: float, cost: Cost) -> dict[str, BudgetPlanner]:
    """What needs no search at a budget: each scorer before the language model, pruning once, before layer 0."""
    kernel = joint_kernel(servable=True)
    shape = static_shape(initial_shapes(kernel, cost.num_layers)[0])
    return {name: BudgetPlanner(shape, kernel, budget, cost, chain=Chain.of(name)) for name in _PRE_LLM}


def candidate_chains(*, servable: bool = False, cacheable: bool = False) -> tuple[Chain, ...]:
    """The chains of a search that names none.

    servable: those that can prune once, before layer 0. cacheable: those whose choice is the same for every question.
    """
    chains = tuple(map(Chain.of, (*_PRE_LLM, "uniform"))) if servable else default_chains()
    return tuple(chain for chain in chains if not (cacheable and chain.reads_question))


def read_chains(text: str) -> tuple[Chain, ...]:
    """Chains as a person types them, separated by commas: 'fastv,divprune+fastv'. Brackets may hold commas."""
    found = tuple(dict.fromkeys(Chain.of(part.strip()) for part in split_outside(text, ",") if part.strip()))
    if not found:
        raise InvalidInputError(f"No scorers were named in {text!r}. Write fastv,divprune+fastv or leave it out.")
    return found


def joint_kernel(*, servable: bool = False) -> Kernel:
    """The curves of the joint space: up to three steps, the first possibly before the language model; servable: one."""
    return kernels.get("steps", earliest_layer=0, steps=1 if servable else 3)


def chain_kernel(kernel: Kernel, chain: Chain) -> Kernel:
    """The kernel from the first layer on that a chain can prune."""
    return replace(kernel, earliest_layer=max(kernel.earliest_layer, chain.earliest_layer))


def chain_shapes(
    objective: Objective, kernel: Kernel, budget: float, size: Tensor, *, servable: bool = False
) -> ShapePool:
    """The shapes of the objective's chain that differ at a budget for a sample of size [1, 4], simple ones first.

    Every scorer of the chain has a choice: a shape that drops nothing, or all, where one of them rules is a shape of the
    chain without it. servable: one step, before layer 0.
    """
    chain = objective.scorer
    every = initial_shapes(chain_kernel(kernel, chain), objective.cost.num_layers)
    pool = ShapePool.at(objective, kernel, every[:1] if servable else every, budget, size)
    curves, starts = pool.curves, [layer for layer, _ in chain.stages]
    used = curves[:, 0] < 1 if chain.earliest_layer == 0 else torch.ones(len(curves), dtype=torch.bool)
    if len(starts) > 1:
        before = torch.cat([torch.ones_like(curves[:, :1]), curves[:, :-1]], dim=-1)
        drops = (curves < before) & (curves > 0)  # a scorer that drops all tokens chooses nothing
        for start, end in zip(starts, [*starts[1:], curves.shape[1]], strict=True):
            used = used & drops[:, start:end].any(-1)
    # at a high budget curves are lifted until their first step is gone
    return ShapePool(pool.params[used], curves[used]) if bool(used.any()) else pool


def check_chains(chains: Sequence[ChainLike], *, servable: bool = False, cacheable: bool = False) -> tuple[Chain, ...]:
    """Chains that a joint search can take, or a sentence."""
    found = tuple(dict.fromkeys(Chain.of(chain) for chain in chains))
    for chain in found:
        if servable and chain.earliest_layer > 0:
            raise InvalidInputError(
                f"--servable keeps to configurations that prune before layer 0, and {chain.name!r} begins at layer "
                f"{chain.earliest_layer}. Give scorers such as {', '.join(_PRE_LLM)}."
            )
        if cacheable and chain.reads_question:
            raise InvalidInputError(
                f"--cacheable keeps to choices that are the same for every question, and {chain.name!r} reads the question. "
                f"Give scorers such as {', '.join(str(each) for each in candidate_chains(cacheable=True))}."
            )
    return found
