"""Kernel shapes as candidates at one budget: those that give different token counts, and their measured KL."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from vispco.cost import BudgetWarning, Cost, counts_for_budget
from vispco.cost.workload import Array
from vispco.kernels import Kernel
from vispco.pruner.budget_planner import deployed_gamma
from vispco.pruner.configurations import text_floor
from vispco.search.batch import Batch
from vispco.search.initial_shapes import GOLDEN
from vispco.search.objective import Objective


@dataclass(frozen=True, eq=False)
class ShapePool:
    """params: [N, P], float64. curves: [N, L], the share of tokens that each keeps at the budget, at a typical size."""

    params: Tensor
    curves: Tensor

    @classmethod
    def at(cls, objective: Objective, kernel: Kernel, params: Tensor, budget: float, size: Tensor) -> ShapePool:
        """The shapes params [N, P] that give different counts at a budget for a sample of size [1, 4], in their order."""
        counts = typical_counts(objective, kernel, params, budget, size)
        _, place = torch.unique(counts, dim=0, return_inverse=True)
        first = torch.full((int(place.max()) + 1,), len(params))
        first = first.scatter_reduce(0, place, torch.arange(len(params)), reduce="amin").sort().values
        return cls(params[first], counts[first].double() / size[:, 1].clamp_min(1))

    def __len__(self) -> int:
        return len(self.params)

    def spread(self, limit: int | None, *, simple: int = 1, seed: int = 0) -> Tensor:
        """Indices of at most `limit` shapes: the first `simple` ones, the others evenly spread over the rest."""
        if limit is None or len(self) <= limit:
            return torch.arange(len(self))
        offsets = (torch.arange(1, len(self) - simple + 1, dtype=torch.float64) * GOLDEN + 0.31 * seed) % 1.0
        others: Tensor = simple + offsets.argsort()[: limit - simple].sort().values
        return torch.cat([torch.arange(simple), others])

    def nearest(self, curves: Tensor) -> Tensor:
        """Indices of all shapes by their L1 distance to the nearest of some curves [G, L], the nearest first."""
        distance = torch.cdist(self.curves, curves, p=1.0).min(-1).values
        return torch.as_tensor(distance.argsort(stable=True))


def median_size(batches: Sequence[Batch]) -> Tensor:
    """The median prompt size of some batches: int64 [1, 4], see `TokenLayout.prompt_sizes`."""
    return torch.cat([batch.sizes for batch in batches]).median(0, keepdim=True).values


def sample_floors(batches: Sequence[Batch], cost: Cost) -> Array:
    """What each sample of some batches costs without visual tokens, as a fraction: float64 [M]; see `text_floor`."""
    sizes = torch.cat([batch.sizes for batch in batches])
    floors: Array = text_floor(sizes[:, 0], sizes[:, 1], cost).numpy()
    return floors


def counts_at_budget(
    objective: Objective, sizes: Tensor, kernel: Kernel, params: Tensor, budget: Tensor | float
) -> Tensor:
    """Token counts [K, B, L] of shapes params [K, P] (or [K, B, P]) at a budget ([B] or one), as deployed.

    sizes: int64 [B, 4], see `TokenLayout.prompt_sizes`.
    """
    K, B = len(params), len(sizes)
    rows = (params[:, None] if params.ndim == 2 else params).expand(K, B, -1).reshape(K * B, -1)
    counts = counts_for_budget(
        kernel,
        rows,
        torch.as_tensor(budget, dtype=torch.float64).expand(B).repeat(K),
        objective.workload(sizes).repeat(K),
        objective.cost,
        gamma=deployed_gamma(kernel),
        fill=False,  # single tokens more in some layers change nothing that KL could see, and cost time
    )
    return counts.view(K, B, -1)


def typical_counts(objective: Objective, kernel: Kernel, params: Tensor, budget: float, size: Tensor) -> Tensor:
    """Token counts [N, L] of shapes [N, P] at a budget, for a sample of size [1, 4]."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BudgetWarning)  # reported where samples are measured
        return counts_at_budget(objective, size, kernel, params, budget)[:, 0]


def measure_shapes(
    objective: Objective, batch: Batch, kernel: Kernel, params: Tensor, budget: Tensor | float, *, warn: bool = True
) -> Tensor:
    """KL [K, B] of shapes at a budget; shapes with the same counts for all samples are run once.

    warn: of samples whose floor lies above the budget; False for budgets that the user has not asked for.
    """
    with warnings.catch_warnings():
        if not warn:
            warnings.simplefilter("ignore", BudgetWarning)
        counts = counts_at_budget(objective, batch.sizes, kernel, params, budget)
    unique, place = torch.unique(counts.flatten(1), dim=0, return_inverse=True)
    return objective.measure_kl(batch, unique.view(-1, *counts.shape[1:]))[place]
