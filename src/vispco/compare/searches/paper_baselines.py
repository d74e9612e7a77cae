"""The baselines of the paper's Table 2: the best of N random schedules that meet the budget, and the grid under it.

`random-N`. Faithful: N draws, each evaluated on the whole calibration set, the most accurate is taken. Not faithful:
the paper does not say what its schedules are drawn from. Here they are any non-increasing curves, from the sweep's
space `free` (or another), drawn or moved into a cost range just below the budget and then solved, so that all N spend
the same; the N schedules of one seed are the first N of the same seed with more.

`single-grid`. Faithful: one pruning layer, one share kept, (L - 1) layers × 20 ratios .01, .06, ..., .96 (700 for 36
layers), task accuracy decides. Not faithful: configurations over the budget are not run (the paper runs all 700 and
filters afterwards, which costs more and finds the same). On a single sample that a configuration is too dear for, its
first layers are cut.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from vispco.compare.searches.calibration import Calibration
from vispco.compare.searches.rival import AnytimeRival, Choice, Rival, TryNext, best_schedule
from vispco.compare.searches.search_registry import SEARCHES
from vispco.core.errors import InvalidInputError
from vispco.core.schedule import Schedule
from vispco.sweep import spaces
from vispco.sweep.spaces import CostRange, SingleSpace

_WIDTH = 0.05  # of the cost range below the budget; within it, the curve is lifted to the budget


@SEARCHES.register
@dataclass(frozen=True)
class _RandomN(AnytimeRival):
    """Best of n. space: a space of `vispco.sweep` ('free', 'stages', 'single' or 'kernel:NAME')."""

    name: ClassVar[str] = "random"
    least: ClassVar[Mapping[str, float]] = {"n": 1, "seed": 0}

    n: int = 40
    space: str = "free"
    seed: int = 0

    @property
    def label(self) -> str:
        return f"{self.name}-{self.n}"

    @property
    def num_steps(self) -> int:
        return self.n

    def _search(self, calibration: Calibration, budget: float) -> Choice:
        """All draws in one pass over the data."""
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


@SEARCHES.register
@dataclass(frozen=True)
class _SingleGrid(Rival):
    """Every single-layer configuration with a mean cost in [budget - width, budget]; width=1 is the whole grid."""

    name: ClassVar[str] = "single-grid"

    width: float = 1.0

    def __post_init__(self) -> None:
        if not 0.0 < self.width <= 1.0:
            raise InvalidInputError(f"width={self.width} was given to {self.name!r}. Give a fraction in (0, 1].")

    def _search(self, calibration: Calibration, budget: float) -> Choice:
        sizes = calibration.sizes
        cost_range = CostRange(
            SingleSpace(calibration.num_layers, sizes.earliest_layer),
            max(0.0, budget - self.width),
            budget,
            sizes.fraction,
        )
        grid = cost_range.grid or []
        curves = [cost_range.space.schedule(params) for params in grid]
        chosen, scores = best_schedule(calibration, [sizes.fit(curve, budget, lift=False) for curve in curves])
        seen = {"configuration": dict(grid[chosen]), "configurations": len(grid), "score": scores[chosen]}
        return Choice(curves[chosen], lift=False, provenance=seen)
