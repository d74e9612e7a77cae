"""The best of many shapes at a budget, without a gradient: successive halving, then the neighbours of the best.

Tokens are really dropped in every pass. So any chain can be searched, also one that merges tokens or decides by itself how
many stay, through which no gradient goes.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from vispco.core.errors import InvalidInputError
from vispco.kernels import Kernel
from vispco.pruner.found_shape import FoundShape
from vispco.search.batch import Batch
from vispco.search.objective import Objective
from vispco.search.shapes.halving import rank_shapes
from vispco.search.shapes.pool import ShapePool

LEADERS = 3  # shapes whose neighbours are measured


def shape_search(
    objective: Objective, batches: Sequence[Batch], kernel: Kernel, budget: float, *, explore: int | None = 64
) -> FoundShape:
    """The shape of a kernel with the least calibration KL at a budget.

    explore: shapes that are measured on the first batch, None for all that differ at the budget. Half as many of their
    unmeasured neighbours follow.
    """
    if explore is not None and explore < 1:
        raise InvalidInputError(f"explore={explore} was given. Give 1 shape or more, or None for all.")
    pool = ShapePool.at(objective, kernel, budget, batches[:8])
    seen = pool.spread(explore)
    first = rank_shapes(objective, batches, kernel, pool.params[seen], budget, keep=min(LEADERS, len(seen)))
    near = pool.nearest(_places(pool, first.params), seen, len(seen) // 2)
    best = first
    if len(near):
        beside = rank_shapes(objective, batches, kernel, pool.params[near], budget)
        best = beside if beside.kl[0] < first.kl[0] else first
    history = [
        {
            "explored": len(seen),
            "neighbours": len(near),
            "samples": best.samples,
            "start_kl": float(first.kl[0]),
            "shape": kernel.describe(best.params[0], objective.cost.num_layers),
        }
    ]
    return FoundShape(budget, best.params[0], float(best.kl[0]), history=history)


def _places(pool: ShapePool, params: Tensor) -> Tensor:
    """Where shapes [K, P] of a pool stand in it: int64 [K]."""
    same: Tensor = (pool.params[None] == params[:, None]).all(-1)  # [K, N]
    return torch.as_tensor(same.long().argmax(-1))
