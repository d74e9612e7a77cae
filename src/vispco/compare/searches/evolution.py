"""An evolutionary search over the curve, after the Length-Adaptive Transformer.

Kim and Cho, "Length-Adaptive Transformer: Train Once with Length Drop, Use Anytime with Search" (ACL 2021), the
ancestor of searches for how many tokens each layer keeps.

Faithful: a configuration is a non-increasing number of tokens for each layer; the first ones drop at a constant rate; a
mutation draws some layers anew between their neighbours, each with probability 1/2; a crossover takes the mean of two
parents layer by layer; parents are the best so far; one population serves all budgets.

Not faithful: the original evolves a front of accuracy and FLOPs, 30 mutations and 30 crossovers at a time, and reads
budgets off it. Here a child is moved to one of the budgets, in turn, before it is measured, so that nothing is spent
between the budgets, and parents are the best of that budget and of the two nearest to it. The model is not trained for
dropped tokens (LengthDrop). The scorer is the comparison's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from vispco.compare.searches.calibration import Calibration
from vispco.compare.searches.rival import Choice, TrialRival, TryNext
from vispco.compare.searches.search_registry import SEARCHES
from vispco.core.schedule import Schedule

_RATES = (0.9, 0.75, 0.6, 0.4)  # of the first generation: the share that each layer keeps of the one before
_MUTATED = 0.5  # the probability that a layer is drawn anew
_Curve = tuple[float, ...]


@SEARCHES.register
@dataclass(frozen=True)
class _Evolution(TrialRival):
    """Mutations and crossovers of the best curves. parents: how many breed."""

    name: ClassVar[str] = "evolution"

    least: ClassVar[Mapping[str, float]] = {"trials": 1, "parents": 2, "seed": 0}

    parents: int = 6

    def begin(self, calibration: Calibration, budgets: Sequence[float]) -> TryNext:
        sizes, rng = calibration.sizes, np.random.default_rng(self.seed)
        known: dict[float, dict[_Curve, float]] = {budget: {} for budget in budgets}
        generation, ascending = dict.fromkeys(budgets, 0), sorted(budgets)

        def try_next(budget: float) -> tuple[float, Choice]:
            if generation[budget] < len(_RATES):
                curve = _constant_rate(_RATES[generation[budget]], sizes.num_layers, sizes.earliest_layer)
            else:
                parents = sorted(known[budget], key=lambda curve: -known[budget][curve])[: self.parents]
                place = ascending.index(budget)
                for near in (*ascending[max(0, place - 1) : place], *ascending[place + 1 : place + 2]):
                    parents += sorted(known[near], key=lambda curve: -known[near][curve])[:1]
                one, other = (parents[n] for n in rng.choice(len(parents), size=2, replace=len(parents) < 2))
                curve = _mutate(one, rng, sizes.earliest_layer) if rng.random() < 0.5 else _cross(one, other)
            generation[budget] += 1
            score = known[budget][curve] = calibration.score(sizes.fit(Schedule(curve), budget))
            return score, Choice(Schedule(curve), provenance={"score": score, "trial": generation[budget] - 1})

        return try_next


def _constant_rate(rate: float, num_layers: int, first: int) -> _Curve:
    """Each layer from `first` on keeps the same share of what the layer before it kept."""
    return tuple(1.0 if layer < first else rate ** (layer - first + 1) for layer in range(num_layers))


def _mutate(curve: _Curve, rng: np.random.Generator, first: int) -> _Curve:
    """Some layers drawn anew between their neighbours, from the input on; layers before `first` stay full."""
    child = list(curve)
    for layer in range(first, len(child)):
        if rng.random() < _MUTATED:
            above = child[layer - 1] if layer else 1.0
            below = child[layer + 1] if layer + 1 < len(child) else 0.0
            child[layer] = float(rng.uniform(min(below, above), above))
    return tuple(child)


def _cross(one: _Curve, other: _Curve) -> _Curve:
    """The mean of two parents, layer by layer."""
    return tuple((a + b) / 2 for a, b in zip(one, other, strict=True))
