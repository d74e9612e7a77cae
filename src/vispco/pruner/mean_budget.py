"""Mean budgets: easy inputs spend less, hard ones more, and none more than a cap.

For every input the estimated loss is a curve over budgets. With a Lagrange multiplier, an input takes the budget that
minimises loss + multiplier * cost. The multiplier is solved on the calibration samples, each estimated from the others
(leave-one-out), so that they spend the mean that was asked for. A decision looks at one input, never at the rest.

A multiplier that is fixed on calibration samples spends the mean on traffic like them. On other traffic it spends more or less. The
controller counts what inputs have spent above the mean, the debt, and asks the next input for so much less: the multiplier moves
along a ladder of them, each known by the mean that calibration samples spend at it. While the debt stays within 2.5 % of 256 means, the
mean over any 256 inputs stays within 5 %. The debt is bounded, so that traffic that cannot meet the mean (its text alone costs
more) is forgotten in time.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from vispco.cost import Budget
from vispco.cost.workload import Array

_LEVEL_STEP = 0.005  # between the levels that an input may take
_ROUNDING = 1e-9
_MIN_KL = 1e-6  # of an estimate: its logarithm is interpolated
_BISECTION_STEPS = 60  # of the multiplier's range
_MAX_CORRECTIONS = 8  # of the multiplier, by what whole tokens leave unspent
_TOLERANCE = 5e-4  # of the mean that is spent, below the one that was asked for
_GAIN = 0.15  # of the debt, asked back from each input
MOST_DEBT = 8.0  # means
WINDOW = 256  # inputs that a running mean is over
_LADDER_STEPS = 20  # of the ladder above and below the fixed multiplier, each a factor of the square root of 2
COARSE = 0.0025  # budgets are rounded down to multiples of it, so that plans come again
_APART = 1e-3  # means of two multipliers that are nearer are one


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


@dataclass(frozen=True, eq=False)
class MultiplierLadder:
    """Multipliers from high to low. base: the fixed one and its place. means: float64 [P], growing, what calibration spends at each."""

    multipliers: Array
    means: Array
    base: MultiplierBracket
    place: int

    @classmethod
    def of(cls, curves: KlCurves, base: MultiplierBracket, mean: float) -> MultiplierLadder:
        """Around the multiplier that was fixed for a mean on the curves of the calibration samples."""
        multipliers = max(base.high, 1e-9) * 2.0 ** (np.arange(_LADDER_STEPS, -_LADDER_STEPS - 1, -1) / 2)
        means = np.array([float(curves.spend(multiplier).mean()) for multiplier in multipliers])
        means[_LADDER_STEPS] = mean
        kept = [_LADDER_STEPS]
        for step in range(_LADDER_STEPS - 1, -1, -1):
            kept = [step, *kept] if means[step] < means[kept[0]] - _APART else kept
        place = len(kept) - 1
        for step in range(_LADDER_STEPS + 1, len(multipliers)):
            kept = [*kept, step] if means[step] > means[kept[-1]] + _APART else kept
        return cls(multipliers[kept], means[kept], base, place)

    def spend(self, curves: KlCurves) -> Array:
        """What samples spend at each of the multipliers: float64 [B, P]."""
        finite = np.isfinite(curves.cost)
        cost, kl = np.where(finite, curves.cost, 0.0), np.where(finite, curves.kl, np.inf)
        best = (kl[:, None] + self.multipliers[:, None] * cost[:, None]).argmin(axis=-1)
        spent: Array = np.take_along_axis(curves.cost, best, axis=1)
        spent[:, self.place] = curves.spend(self.base)
        return spent


class MeanController:
    """Keeps the mean of what inputs spend. One for all threads that share a planner.

    mean: the target, a fraction of each input's unpruned cost. debt: what was spent above it, in means; negative where less was.
    """

    def __init__(self, mean: float, debt: float = 0.0) -> None:
        self.mean = mean
        self.debt = min(MOST_DEBT, max(-MOST_DEBT, debt)) if math.isfinite(debt) else 0.0
        self._recent: deque[float] = deque(maxlen=WINDOW)
        self._lock = threading.Lock()

    def budgets(self, ladder: MultiplierLadder, spend: Array) -> Array:
        """The budgets [B] of inputs, one after the other, from what they spend [B, P] at the multipliers of a ladder.

        They are on the debt from now on; `settle` says what they really spent.
        """
        low, high = float(ladder.means[0]), float(ladder.means[-1])
        given = []
        with self._lock:
            for row in spend.tolist():
                asked = min(high, max(low, self.mean * (1.0 - _GAIN * self.debt)))
                wanted = COARSE * math.floor(float(np.interp(asked, ladder.means, row)) / COARSE + 1e-6)
                given.append(max(wanted, min(row)))
                self._owe(given[-1] / self.mean - 1.0)
        return np.array(given)

    def settle(self, given: Array, spent: Array) -> None:
        """What inputs spent [B] that were given budgets [B]: whole tokens leave a part over."""
        with self._lock:
            self._owe(float((spent - given).sum()) / self.mean)
            self._recent.extend(spent.tolist())

    @property
    def running_mean(self) -> float | None:
        """Over the last 256 inputs, or as many as there were; None before the first."""
        with self._lock:
            return sum(self._recent) / len(self._recent) if self._recent else None

    def _owe(self, more: float) -> None:
        self.debt = min(MOST_DEBT, max(-MOST_DEBT, self.debt + more))

    def to_dict(self) -> dict[str, float]:
        """What a saved pruner keeps of it."""
        return {"mean": self.mean, "debt": self.debt}

    @classmethod
    def of(cls, budget: Budget, state: Any) -> MeanController | None:
        """Of a mean budget, with a state from `to_dict`, if any, or 'none'; a debt to another mean is none."""
        if not budget.is_mean or state == "none":
            return None
        same = isinstance(state, Mapping) and state.get("mean") == budget.amount
        return cls(budget.amount, float(state["debt"]) if same else 0.0)
