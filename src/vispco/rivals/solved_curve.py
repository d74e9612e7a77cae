"""A family of curves with one free number, and the largest of it that meets a budget."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from vispco.cost import Cost, Workload
from vispco.cost.largest_fitting import largest_fitting


def solve_curve(
    curve: Callable[[Tensor], Tensor], budget: float, workload: Workload, cost: Cost, *, most: float = 1.0
) -> Tensor:
    """The curve [B, L] of the largest number in [0, most] whose cost meets the budget on each sample of a workload [B].

    curve: numbers [..., B] -> retentions [..., B, L], which never fall when a number grows. Where even 0 is too dear, it is
    the curve of 0: `SampleSizes.fit` cuts it further.
    """
    limit = budget * cost.full(workload)

    def fits(number: Tensor) -> Tensor:
        return (cost.relaxed(curve(number), workload) <= limit) | (number <= 0.0)

    none = torch.zeros(workload.num_visual.shape, dtype=torch.float64)
    return curve(largest_fitting(fits, none, none + most))
