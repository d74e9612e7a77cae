"""Budgets that are a mean: easy inputs spend less, hard ones more, and none more than a cap.

For every input the estimated KL is a curve over budgets. With a price per unit of cost, an input takes the budget that
minimises KL + price * cost. The price is fixed on the calibration samples, each estimated from the others, so that they
spend the mean that was asked for. A decision looks at one input, never at the rest.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from vispco.planning.configurations import budget_at

GRID = 0.005  # steps of the levels that an input may take
ROUNDING = 1e-9
LEAST = 1e-6  # of an estimated KL: its logarithm is interpolated
HALVINGS = 60  # of the price's range


@dataclass(frozen=True, eq=False)
class KlCurves:
    """Estimated KL of samples over levels. levels: float64 [G]. kl: float64 [B, G], falling with the level.

    cost: float64 [B, G], the fraction of its unpruned cost that each sample spends at a level; infinite above the cap.
    """

    levels: Tensor
    kl: Tensor
    cost: Tensor

    @classmethod
    def of(cls, estimate: Tensor, level: Tensor, floor: Tensor, cap: float) -> KlCurves:
        """From the estimates [B, K] of configurations at their levels [K]: the least of each level, interpolated.

        Between two levels the logarithm of the KL is linear. floor: [B], what each sample spends without visual tokens. A
        sample that cannot afford the lowest level is cut to the cap, or to its floor.
        """
        known = torch.unique(level)
        best = torch.stack([estimate[:, level == each].min(-1).values for each in known], dim=-1)
        log = best.double().clamp_min(LEAST).log().cummin(-1).values  # more is never worse
        known = known.double()
        steps = max(1, round(float(known[-1] - known[0]) / GRID))
        levels = torch.linspace(float(known[0]), float(known[-1]), steps + 1, dtype=torch.float64, device=log.device)
        if len(known) == 1:
            levels, kl = levels[:1], log.exp()
        else:
            right = torch.bucketize(levels, known).clamp(1, len(known) - 1)
            left = right - 1
            share = ((levels - known[left]) / (known[right] - known[left])).clamp(0.0, 1.0)
            kl = (log[:, left] + (log[:, right] - log[:, left]) * share).exp()
        cost = budget_at(levels, floor.to(levels)[:, None])
        over = cost > cap + ROUNDING
        over[:, 0] = False
        return cls(levels, kl, torch.where(over, torch.inf, cost))

    def spend(self, price: float | Tensor) -> Tensor:
        """The fraction [B] that each sample spends at a price."""
        total = torch.where(self.cost.isfinite(), self.kl + price * self.cost, torch.inf)
        return self.cost.gather(1, total.argmin(-1, keepdim=True))[:, 0]


def fixed_price(curves: KlCurves, mean: float) -> float:
    """The price at which samples spend the mean on average, or just under it."""
    low, high = 0.0, float(curves.kl.max()) / GRID + 1.0
    if float(curves.spend(low).mean()) <= mean:
        return low
    for _ in range(HALVINGS):
        middle = (low * high) ** 0.5 if low > 0 else high * 1e-6
        low, high = (middle, high) if float(curves.spend(middle).mean()) > mean else (low, middle)
    return high
