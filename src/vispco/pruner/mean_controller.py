"""A mean that holds while the traffic changes: an integral step on the Lagrange multiplier.

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
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from vispco.core.errors import InvalidInputError
from vispco.cost import Budget
from vispco.cost.workload import Array
from vispco.pruner.mean_budget import KlCurves, MultiplierBracket

CONTROLLERS = ("integral", "none")
GAIN = 0.15  # of the debt, asked back from each input
MOST_DEBT = 8.0  # means
WINDOW = 256  # inputs that a running mean is over
STEPS = 20  # of the ladder above and below the fixed multiplier, each a factor of the square root of 2
COARSE = 0.0025  # budgets are rounded down to multiples of it, so that plans come again
APART = 1e-3  # means of two multipliers that are nearer are one


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
        multipliers = max(base.high, 1e-9) * 2.0 ** (np.arange(STEPS, -STEPS - 1, -1) / 2)
        means = np.array([float(curves.spend(multiplier).mean()) for multiplier in multipliers])
        means[STEPS] = mean
        kept = [STEPS]
        for step in range(STEPS - 1, -1, -1):
            kept = [step, *kept] if means[step] < means[kept[0]] - APART else kept
        place = len(kept) - 1
        for step in range(STEPS + 1, len(multipliers)):
            kept = [*kept, step] if means[step] > means[kept[-1]] + APART else kept
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
                asked = min(high, max(low, self.mean * (1.0 - GAIN * self.debt)))
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


def check_controller(name: Any) -> str:
    """A name that is none is refused."""
    if name not in CONTROLLERS:
        raise InvalidInputError(
            f"controller={name!r} was given. It keeps the mean of a mean budget while the traffic changes: {', '.join(CONTROLLERS)}."
        )
    return str(name)
