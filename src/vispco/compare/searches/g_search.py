"""After G-Search: from shallow to deep, each layer keeps as little as does no harm.

Zhao et al., "Accelerating Multimodal Large Language Models by Searching Optimal Vision Token Reduction" (CVPR 2025).
The authors have released no code and the exact procedure could not be read: this is *after* the method, from its
premise (the ranking of tokens is alike in all layers but the first, so that the number needed never grows) and its rule
(greedy, shallow to deep, the smallest keeping rate that does not hurt on calibration data). No parity is claimed.

Ours: rates are a ladder of even steps, searched by bisection, which takes the score to be monotone in the rate; while a
layer is searched, all deeper ones keep its rate; "does not hurt" is a score at most `tolerance` below that of the
unpruned model. A budget, which the method does not know, is met by tolerating more: the tolerance doubles until the
walk meets the budget and is then bisected; a walk stops as soon as the budget is met, and what a rung of the ladder
leaves unspent lifts the curve. A schedule that several walks come by is measured and billed once.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from vispco.compare.searches.calibration import Calibration
from vispco.compare.searches.rival import Choice, Rival
from vispco.compare.searches.search_registry import SEARCHES
from vispco.core.schedule import Schedule

_DOUBLINGS = 12


@SEARCHES.register
@dataclass(frozen=True)
class _GSearch(Rival):
    """Greedy rates.

    tolerance: the loss of accuracy (or the KL) that counts as no harm; with a budget, the least one that is tried.
    steps: of the ladder of rates. halvings: of the tolerance, with a budget.
    """

    name: ClassVar[str] = "g-search"
    least: ClassVar[Mapping[str, float]] = {"tolerance": 1e-9, "steps": 1, "halvings": 0}

    tolerance: float = 0.01
    steps: int = 20
    halvings: int = 3

    def _search(self, calibration: Calibration, budget: float) -> Choice:
        sizes = calibration.sizes
        low, high = 0.0, self.tolerance
        found = self._walk(calibration, high, budget)
        for _ in range(_DOUBLINGS):
            if sizes.fraction(found) <= budget:
                break
            low, high = high, 2 * high
            found = self._walk(calibration, high, budget)
        for _ in range(self.halvings if low > 0 else 0):
            middle = (low + high) / 2
            tried = self._walk(calibration, middle, budget)
            if sizes.fraction(tried) <= budget:
                high, found = middle, tried
            else:
                low = middle
        return Choice(found, provenance={"tolerance": high, "met": sizes.fraction(found) <= budget})

    def _search_freely(self, calibration: Calibration) -> Choice:
        return Choice(self._walk(calibration, self.tolerance, None))

    def _walk(self, calibration: Calibration, tolerance: float, budget: float | None) -> Schedule:
        """The greedy curve of one tolerance, shallow to deep, as far as the budget (if any) needs it."""
        L, sizes = calibration.num_layers, calibration.sizes
        unharmed = calibration.score(Schedule.full(L)) - tolerance
        rungs = [self.steps] * L  # the rate of layer i is rungs[i] / steps
        for layer in range(sizes.earliest_layer, L):
            if budget is not None and sizes.fraction(self._schedule(rungs)) <= budget:
                break
            low, high = -1, rungs[layer]  # high does no harm; low does, or does not exist
            while high - low > 1:
                middle = (low + high) // 2
                tried = self._schedule([*rungs[:layer], *[middle] * (L - layer)])
                if calibration.score(tried) >= unharmed:
                    high = middle
                else:
                    low = middle
            rungs[layer:] = [high] * (L - layer)
        return self._schedule(rungs)

    def _schedule(self, rungs: list[int]) -> Schedule:
        return Schedule(tuple(rung / self.steps for rung in rungs))
