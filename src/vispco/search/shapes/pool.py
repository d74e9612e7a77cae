"""The shapes that a search may look at for one budget: those that differ there, and which of them are neighbours."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from vispco.cost import BudgetWarning, counts_for_budget
from vispco.kernels import Kernel
from vispco.pruner.found_shape import deployed_gamma
from vispco.search.batch import Batch
from vispco.search.gradient.descent_step import typical_size
from vispco.search.objective import Objective
from vispco.search.shapes.initial import GOLDEN, initial_shapes


@dataclass(frozen=True, eq=False)
class ShapePool:
    """params: [N, P], float64. curves: [N, L], the share of tokens that each keeps at the budget, at a typical size."""

    params: Tensor
    curves: Tensor

    @classmethod
    def at(cls, objective: Objective, kernel: Kernel, budget: float, batches: Sequence[Batch]) -> ShapePool:
        """All shapes of a kernel that come to different tokens at a budget, simple ones first."""
        every = initial_shapes(kernel, objective.cost.num_layers)
        size = typical_size(objective, batches).workload
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BudgetWarning)  # reported where samples are measured
            counts = counts_for_budget(
                kernel,
                every,
                torch.full((len(every),), budget, dtype=torch.float64),
                size.repeat(len(every)),
                objective.cost,
                gamma=deployed_gamma(kernel),
                fill=False,
            )
        _, place = torch.unique(counts, dim=0, return_inverse=True)
        first = torch.full((int(place.max()) + 1,), len(every)).scatter_reduce(
            0, place, torch.arange(len(every)), reduce="amin"
        )
        kept = first.sort().values
        return cls(every[kept], counts[kept].double() / size.num_visual.clamp_min(1))

    def __len__(self) -> int:
        return len(self.params)

    def spread(self, limit: int | None) -> Tensor:
        """Places of at most so many: the first half of them simple, the others evenly spread over the rest."""
        if limit is None or len(self) <= limit:
            return torch.arange(len(self))
        simple = min(self.curves.shape[1], limit // 2)
        hops = torch.arange(1, len(self) - simple + 1, dtype=torch.float64) * GOLDEN % 1.0
        others: Tensor = simple + hops.argsort()[: limit - simple].sort().values
        return torch.cat([torch.arange(simple), others])

    def nearest(self, good: Tensor, seen: Tensor, count: int) -> Tensor:
        """Places of the `count` shapes that are nearest to one of the good ones and have not been seen."""
        away = torch.cdist(self.curves, self.curves[good], p=1.0).min(-1).values
        away[seen] = torch.inf
        nearest: Tensor = away.argsort(stable=True)[: min(count, len(self) - len(seen))]
        return nearest
