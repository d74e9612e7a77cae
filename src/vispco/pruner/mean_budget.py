"""Mean budgets: easy inputs spend less, hard ones more, and none more than a cap.

For every input the estimated loss is a curve over budgets. With a Lagrange multiplier, an input takes the budget that
minimises loss + multiplier * cost. The multiplier is solved on the calibration samples, each estimated from the others
(leave-one-out), so that they spend the mean that was asked for. A decision looks at one input, never at the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from vispco.cost.workload import Array

_LEVEL_STEP = 0.005  # between the levels that an input may take
_ROUNDING = 1e-9
_MIN_KL = 1e-6  # of an estimate: its logarithm is interpolated
_BISECTION_STEPS = 60  # of the multiplier's range
_MAX_CORRECTIONS = 8  # of the multiplier, by what whole tokens leave unspent
_TOLERANCE = 5e-4  # of the mean that is spent, below the one that was asked for


class MultiplierBracket(NamedTuple):
    """The two ends of a bisection, and the share of the lower one.

    Inputs with similar instructions jump together from one spending to the next, so that no single multiplier meets a mean:
    each takes the weighted mean of what it would spend at the two.
    """

    high: float
    low: float
    share: float


@dataclass(frozen=True, eq=False)
class KlCurves:
    """Estimated KL of samples over levels, on the host. levels: float64 [G]. kl: float64 [B, G], falling with the level.

    cost: float64 [B, G], the fraction of its unpruned cost that each sample spends at a level; infinite above the cap.
    """

    levels: Array
    kl: Array
    cost: Array

    @classmethod
    def of(cls, estimate: Array, level: Array, floor: Array, cap: float) -> KlCurves:
        """From the estimates [B, K] of configurations at their levels [K]: the least of each level, interpolated.

        Between two levels the logarithm of the KL is linear. floor: [B], what each sample spends without visual tokens. A
        sample that cannot afford the lowest level is cut to the cap, or to its floor.
        """
        known = np.unique(level)
        best = np.stack([estimate[:, level == each].min(axis=-1) for each in known], axis=-1).astype(np.float64)
        log = np.minimum.accumulate(np.log(best.clip(_MIN_KL)), axis=-1)  # more is never worse
        known = known.astype(np.float64)
        steps = max(1, round(float(known[-1] - known[0]) / _LEVEL_STEP))
        levels = np.linspace(known[0], known[-1], steps + 1)
        if len(known) == 1:
            levels, kl = levels[:1], np.exp(log)
        else:
            right = np.searchsorted(known, levels).clip(1, len(known) - 1)
            left = right - 1
            share = ((levels - known[left]) / (known[right] - known[left])).clip(0.0, 1.0)
            kl = np.exp(log[:, left] + (log[:, right] - log[:, left]) * share)
        least = np.asarray(floor, dtype=np.float64)[:, None]
        cost = least + levels * (1.0 - least)
        over = cost > cap + _ROUNDING
        over[:, 0] = False
        return cls(levels, kl, np.where(over, np.inf, cost))

    def spend(self, multiplier: MultiplierBracket | float) -> Array:
        """The fraction [B] that each sample spends at a multiplier."""
        if isinstance(multiplier, MultiplierBracket):
            return (1.0 - multiplier.share) * self.spend(multiplier.high) + multiplier.share * self.spend(
                multiplier.low
            )
        finite = np.isfinite(self.cost)
        total = np.where(finite, self.kl + multiplier * np.where(finite, self.cost, 0.0), np.inf)
        found: Array = np.take_along_axis(self.cost, total.argmin(axis=-1)[:, None], axis=1)[:, 0]
        return found


def solve_multiplier(
    curves: KlCurves, mean: float, realised: Callable[[Array], Array] = lambda budget: budget
) -> MultiplierBracket:
    """The multiplier at which samples spend the mean on average; they spend less where more tokens gain nothing.

    realised: what samples spend that are given budgets [B]: whole tokens leave a part of a budget over.
    """
    low, high = 0.0, float(curves.kl.max()) / _LEVEL_STEP + 1.0
    if float(curves.spend(low).mean()) <= mean:
        return MultiplierBracket(low, low, 0.0)
    asked = mean
    found = _bisect_multiplier(curves, asked, low, high)
    for _ in range(_MAX_CORRECTIONS):
        left = mean - float(realised(curves.spend(found)).mean())
        if 0.0 <= left < _TOLERANCE:
            break
        asked += left
        found = _bisect_multiplier(curves, asked, low, high)
    return found


def _bisect_multiplier(curves: KlCurves, mean: float, low: float, high: float) -> MultiplierBracket:
    """The multiplier, between two others, at which the budgets of samples have a mean."""
    for _ in range(_BISECTION_STEPS):
        middle = (low * high) ** 0.5 if low > 0 else high * 1e-6
        low, high = (middle, high) if float(curves.spend(middle).mean()) > mean else (low, middle)
    least, most = float(curves.spend(high).mean()), float(curves.spend(low).mean())
    return MultiplierBracket(high, low, min(1.0, max(0.0, (mean - least) / (most - least))) if most > least else 0.0)
