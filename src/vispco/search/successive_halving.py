"""Static searches without a gradient: successive halving over shapes, by calibration KL.

Tokens are really dropped in every pass. So any chain can be searched, also one that merges tokens or decides by itself how
many stay, through which no gradient goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from vispco.core.errors import InvalidInputError
from vispco.kernels import Kernel
from vispco.pruner.search_files import FoundShape
from vispco.search.batch import Batch
from vispco.search.initial_shapes import initial_shapes
from vispco.search.objective import Objective
from vispco.search.shape_pool import ShapePool, measure_shapes, median_size

_NUM_LEADERS = 3  # shapes whose neighbours are measured


@dataclass(frozen=True)
class _RankedShapes:
    """The shapes of the last rung, best first: params [K, P], mean KL [K] over `samples` samples, index [K] in the input."""

    params: Tensor
    kl: Tensor
    samples: int
    index: Tensor


def rank_shapes(
    objective: Objective,
    batches: Sequence[Batch],
    kernel: Kernel,
    params: Tensor,
    budget: float,
    *,
    keep: int = 1,
    rungs: int = 3,
) -> _RankedShapes:
    """The best `keep` shapes of params [K, P] at a budget, by mean KL over all batches.

    The first rung sees one batch, each further one more batches, until the last sees all; between two rungs the number
    of shapes falls geometrically to `keep`.
    """
    rungs = max(1, min(rungs, len(batches)))
    alive, sums, seen, used = torch.arange(len(params)), torch.zeros(len(params)), 0, 0
    for rung in range(1, rungs + 1):
        until = len(batches) if rung == rungs else max(rung, round(len(batches) ** (rung / rungs)))
        for batch in batches[used:until]:
            sums = sums + measure_shapes(objective, batch, kernel, params[alive], budget).sum(-1).cpu()
            seen += len(batch)
        used = until
        left = keep if rung == rungs else max(keep, round(len(params) * (keep / len(params)) ** (rung / rungs)))
        best = sums.argsort(stable=True)[:left]
        alive, sums = alive[best], sums[best]
    return _RankedShapes(params[alive], sums / max(seen, 1), seen, alive)


def explored_shapes(
    objective: Objective, kernel: Kernel, budget: float, batches: Sequence[Batch], limit: int | None
) -> tuple[ShapePool, Tensor]:
    """All shapes of a kernel that differ at a budget, and the indices of the at most `limit` that are measured first."""
    num_layers = objective.cost.num_layers
    every = initial_shapes(kernel, num_layers)
    pool = ShapePool.at(objective, kernel, every, budget, median_size(batches[:8]))
    return pool, pool.spread(limit, simple=1 if limit is None else min(num_layers, limit // 2))


def shape_search(
    objective: Objective, batches: Sequence[Batch], kernel: Kernel, budget: float, *, explore: int | None = 64
) -> FoundShape:
    """The shape of a kernel with the least calibration KL at a budget: halving, then the neighbours of the best.

    explore: shapes that are measured on the first batch, None for all that differ at the budget. Half as many of their
    unmeasured neighbours follow.
    """
    if explore is not None and explore < 1:
        raise InvalidInputError(f"explore={explore} was given. Give 1 shape or more, or None for all.")
    pool, explored = explored_shapes(objective, kernel, budget, batches, explore)
    first = rank_shapes(
        objective, batches, kernel, pool.params[explored], budget, keep=min(_NUM_LEADERS, len(explored))
    )
    order = pool.nearest(pool.curves[explored[first.index]])
    neighbours = order[~torch.isin(order, explored)][: len(explored) // 2]
    best = first
    if len(neighbours):
        second = rank_shapes(objective, batches, kernel, pool.params[neighbours], budget)
        best = second if second.kl[0] < first.kl[0] else first
    history = {
        "explored": len(explored),
        "neighbours": len(neighbours),
        "samples": best.samples,
        "start_kl": float(first.kl[0]),
        "shape": kernel.describe(best.params[0], objective.cost.num_layers),
    }
    return FoundShape(budget, best.params[0], float(best.kl[0]), history=[history])


def line_search(
    objective: Objective, batches: Sequence[Batch], kernel: Kernel, budget: float, *, rungs: int = 3
) -> FoundShape:
    """The best value of the one free parameter at a budget, by calibration KL."""
    num_layers = objective.cost.num_layers
    names = kernel.parameter_names(num_layers)
    if len(names) != 2:
        raise InvalidInputError(
            f"A line search moves one free parameter; kernel {kernel.name!r} has {len(names)} parameters, of which a "
            "budget fixes one. Use mode='static' or 'predictor', or a kernel with two parameters."
        )
    best = rank_shapes(objective, batches, kernel, initial_shapes(kernel, num_layers), budget, rungs=rungs)
    describe = kernel.describe(best.params[0], num_layers)
    return FoundShape(budget, best.params[0], float(best.kl[0]), history=[{"samples": best.samples, "shape": describe}])
