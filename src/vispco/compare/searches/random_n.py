"""Random-N: the best of N random schedules that meet the budget, as in the paper's Table 2.

Faithful: N draws, each evaluated on the whole calibration set, the most accurate is taken.

Not faithful: the paper does not say what its schedules are drawn from. Here they are any non-increasing curves, from the
sweep's space `free` (or another), drawn or moved into a cost_range just below the budget and then solved, so that all N
spend the same; the N schedules of one seed are the first N of the same seed with more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from vispco.compare.searches.calibration import Calibration
from vispco.compare.searches.rival import AnytimeRival, Choice, TryNext, best_schedule
from vispco.compare.searches.search_registry import SEARCHES
from vispco.core.errors import InvalidInputError
from vispco.core.schedule import Schedule
from vispco.sweep import spaces
from vispco.sweep.spaces import CostRange

_WIDTH = 0.05  # of the cost_range below the budget; within it, the curve is lifted to the budget


@SEARCHES.register
@dataclass(frozen=True)
class RandomN(AnytimeRival):
    """Best of n. space: a space of `vispco.sweep` ('free', 'stages', 'single' or 'kernel:NAME')."""

    name: ClassVar[str] = "random"

    n: int = 40
    space: str = "free"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.n < 1 or self.seed < 0:
            raise InvalidInputError(
                f"n={self.n}, seed={self.seed} were given to {self.name!r}. Give n from 1 and a seed from 0."
            )

    @property
    def label(self) -> str:
        return f"{self.name}-{self.n}"

    @property
    def num_steps(self) -> int:
        return self.n

    def _search(self, calibration: Calibration, budget: float | None) -> Choice:
        """All draws in one pass over the data."""
        assert budget is not None  # noqa: S101 - needs_budget
        cost_range = self._range(calibration, budget)
        curves = [self._draw(cost_range, number) for number in range(self.n)]
        chosen, scores = best_schedule(calibration, [calibration.sizes.fit(curve, budget) for curve in curves])
        return Choice(curves[chosen], provenance={"draw": chosen, "scores": scores})

    def begin(self, calibration: Calibration, budgets: Sequence[float]) -> TryNext:
        ranges = {budget: self._range(calibration, budget) for budget in budgets}
        drawn = dict.fromkeys(budgets, 0)

        def try_next(budget: float) -> tuple[float, Choice]:
            curve = self._draw(ranges[budget], drawn[budget])
            score = calibration.score(calibration.sizes.fit(curve, budget))
            drawn[budget] += 1
            return score, Choice(curve, provenance={"draw": drawn[budget] - 1, "score": score})

        return try_next

    def _range(self, calibration: Calibration, budget: float) -> CostRange:
        sizes = calibration.sizes
        space = spaces.get(self.space, calibration.num_layers, sizes.earliest_layer)
        return CostRange(space, max(0.0, budget - _WIDTH), budget, sizes.fraction)

    def _draw(self, cost_range: CostRange, number: int) -> Schedule:
        return cost_range.space.schedule(cost_range.draw(np.random.default_rng((self.seed, number))))
