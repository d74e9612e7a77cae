"""Budgets that are a mean: easy inputs spend less, hard ones more, and none more than a cap.

For every input the estimated KL is a curve over budgets. With a price per unit of cost, an input takes the budget that
minimises KL + price * cost. The price is fixed on the calibration samples, each estimated from the others, so that they
spend the mean that was asked for. A decision looks at one input, never at the rest.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from vispco.cost import Cost, Workload

GRID = 0.01  # steps of the budgets that an input may take
LEAST = 1e-6  # of an estimated KL: its logarithm is interpolated
HALVINGS = 60  # of the price's range


@dataclass(frozen=True, eq=False)
class KlCurves:
    """Estimated KL of samples over budgets. budgets: float64 [G]. kl: float64 [B, G], falling with the budget."""

    budgets: Tensor
    kl: Tensor

    @classmethod
    def of(cls, estimate: Tensor, level: Tensor, cap: float) -> KlCurves:
        """From the estimates [B, K] of configurations at their levels [K]: the least of each level, interpolated.

        Between two levels the logarithm of the KL is linear. Outside of them it stays as at the nearest one.
        """
        known = torch.unique(level)
        best = torch.stack([estimate[:, level == each].min(-1).values for each in known], dim=-1).double()
        log = best.clamp_min(LEAST).log().cummin(-1).values  # more is never worse
        steps = max(1, round((min(cap, float(known[-1])) - float(known[0])) / GRID))
        budgets = torch.linspace(float(known[0]), min(cap, float(known[-1])), steps + 1, dtype=torch.float64)
        right = torch.bucketize(budgets, known.cpu()).clamp(1, max(1, len(known) - 1)).to(log.device)
        if len(known) == 1:
            return cls(budgets[:1].to(log.device), log.exp())
        left = right - 1
        share = ((budgets.to(known) - known[left]) / (known[right] - known[left])).clamp(0.0, 1.0)
        return cls(budgets.to(log.device), (log[:, left] + (log[:, right] - log[:, left]) * share).exp())

    def spend(self, price: float | Tensor, floor: Tensor) -> Tensor:
        """The budget [B] that each sample takes at a price; floor [B] is what it spends at least."""
        cost = torch.maximum(self.budgets, floor.to(self.budgets)[:, None])
        return self.budgets[(self.kl + price * cost).argmin(-1)]


def fixed_price(curves: KlCurves, floor: Tensor, mean: float) -> float:
    """The price at which samples spend the mean on average, or just under it."""
    low, high = 0.0, float(curves.kl.max()) / GRID + 1.0

    def spent(price: float) -> float:
        return float(torch.maximum(curves.spend(price, floor), floor.to(curves.budgets)).mean())

    if spent(low) <= mean:
        return low
    for _ in range(HALVINGS):
        middle = (low * high) ** 0.5 if low > 0 else high * 1e-6
        low, high = (middle, high) if spent(middle) > mean else (low, middle)
    return high


def floors(sizes: Tensor, cost: Cost, earliest_layer: int) -> Tensor:
    """What samples of these sizes [B, 2] (text and visual tokens) spend at least, as a fraction: float64 [B]."""
    sizes = sizes.cpu()
    return cost.lowest_fraction(Workload(sizes[:, 0], sizes[:, 1], "entry", earliest_layer)).double()
