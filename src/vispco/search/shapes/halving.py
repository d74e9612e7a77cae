"""Choosing among many shapes by calibration KL: all on a few samples, the better ones on more (successive halving)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from vispco.core.errors import InvalidInputError
from vispco.cost import BudgetWarning, counts_for_budget
from vispco.kernels import Kernel
from vispco.pruner.found_shape import FoundShape, deployed_gamma
from vispco.search.batch import Batch
from vispco.search.objective import Objective
from vispco.search.shapes.initial import initial_shapes


def counts_at_budget(
    objective: Objective, batch: Batch, kernel: Kernel, params: Tensor, budget: Tensor | float
) -> Tensor:
    """Whole tokens [K, B, L] of shapes params [K, P] (or [K, B, P]) that meet a budget ([B] or one), as deployed."""
    K, B = len(params), len(batch)
    rows = (params[:, None] if params.ndim == 2 else params).expand(K, B, -1).reshape(K * B, -1)
    budgets = torch.as_tensor(budget, dtype=torch.float64).expand(B).repeat(K)
    counts = counts_for_budget(
        kernel,
        rows,
        budgets,
        objective.workload(batch.sizes).repeat(K),
        objective.cost,
        gamma=deployed_gamma(kernel),
        fill=False,  # single tokens more in some layers change nothing that KL could see, and cost time
    )
    return counts.view(K, B, -1)


def measure_shapes_quietly(
    objective: Objective, batch: Batch, kernel: Kernel, params: Tensor, budget: Tensor | float
) -> Tensor:
    """`measure_shapes` at a budget that nobody asked for: of a sample whose floor lies above it, nothing is said."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BudgetWarning)
        return measure_shapes(objective, batch, kernel, params, budget)


def measure_shapes(
    objective: Objective, batch: Batch, kernel: Kernel, params: Tensor, budget: Tensor | float
) -> Tensor:
    """KL [K, B] of shapes at a budget; shapes that come to the same whole tokens for all samples are run once."""
    counts = counts_at_budget(objective, batch, kernel, params, budget)
    unique, place = torch.unique(counts.flatten(1), dim=0, return_inverse=True)
    return objective.measure_kl(batch, unique.view(-1, *counts.shape[1:]))[place]


@dataclass(frozen=True)
class RankedShapes:
    """The shapes that were left, best first: params [K, P], their mean KL [K], over so many samples."""

    params: Tensor
    kl: Tensor
    samples: int


def rank_shapes(
    objective: Objective,
    batches: Sequence[Batch],
    kernel: Kernel,
    params: Tensor,
    budget: float,
    *,
    keep: int = 1,
    rungs: int = 3,
) -> RankedShapes:
    """The best `keep` shapes of params [K, P] at a budget, by mean KL over all batches.

    The first rung sees one batch, each further one more batches, until the last sees all; between two rungs the number
    of shapes falls geometrically to `keep`.
    """
    rungs = max(1, min(rungs, len(batches)))
    alive, sums, seen = params, torch.zeros(len(params)), 0
    used = 0
    for rung in range(1, rungs + 1):
        until = len(batches) if rung == rungs else max(rung, round(len(batches) ** (rung / rungs)))
        for batch in batches[used:until]:
            sums = sums + measure_shapes(objective, batch, kernel, alive, budget).sum(-1).cpu()
            seen += len(batch)
        used = until
        left = keep if rung == rungs else max(keep, round(len(params) * (keep / len(params)) ** (rung / rungs)))
        best = sums.argsort(stable=True)[:left]
        alive, sums = alive[best], sums[best]
    return RankedShapes(alive, sums / max(seen, 1), seen)


def line_search(
    objective: Objective, batches: Sequence[Batch], kernel: Kernel, budget: float, *, rungs: int = 3
) -> FoundShape:
    """The best value of the one free parameter at a budget, by calibration KL; tokens are dropped, no gradient."""
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
