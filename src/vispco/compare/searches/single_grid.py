"""The paper's grid under a budget: one pruning layer, one share kept, every configuration that meets it.

Faithful: (L - 1) layers × 20 ratios .01, .06, ..., .96 (700 for 36 layers), task accuracy decides.

Not faithful: configurations over the budget are not run (the paper runs all 700 and filters afterwards, which costs more
and finds the same). On a single sample that a configuration is too dear for, its first layers are cut.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from vispco.compare.searches.calibration import Calibration
from vispco.compare.searches.rival import Choice, Rival, best_schedule
from vispco.compare.searches.search_registry import SEARCHES
from vispco.core.errors import InvalidInputError
from vispco.sweep.spaces import CostRange, SingleSpace


@SEARCHES.register
@dataclass(frozen=True)
class SingleGrid(Rival):
    """Every single-layer configuration with a mean cost in [budget - width, budget]; width=1 is the whole grid."""

    name: ClassVar[str] = "single-grid"

    width: float = 1.0

    def __post_init__(self) -> None:
        if not 0.0 < self.width <= 1.0:
            raise InvalidInputError(f"width={self.width} was given to {self.name!r}. Give a fraction in (0, 1].")

    def _search(self, calibration: Calibration, budget: float | None) -> Choice:
        assert budget is not None  # noqa: S101 - needs_budget
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
