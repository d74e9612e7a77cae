"""Dominance and distances between sets of (cost, accuracy): less cost is better, more accuracy is better.

Pure functions of NumPy arrays; `tests/evaluation/frontier` holds them against moocore.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]  # [n, 2]: cost, accuracy


def nondominated(values: Values) -> NDArray[np.bool_]:  # [n, 2] -> [n]
    """Which points no other point beats: as good in both and better in one. Equal points all stay."""
    keep = np.zeros(len(values), dtype=bool)
    best = -np.inf  # accuracy reached by anything strictly cheaper
    order = np.lexsort((-values[:, 1], values[:, 0]))
    start = 0
    while start < len(order):
        cost = values[order[start], 0]
        stop = start
        while stop < len(order) and values[order[stop], 0] == cost:
            stop += 1
        top = values[order[start], 1]  # the best accuracy at this very cost
        if top > best:
            for index in order[start:stop]:
                keep[index] = values[index, 1] == top
            best = top
        start = stop
    return keep


def hypervolume(values: Values, reference: tuple[float, float]) -> float:
    """The area that the points dominate, bounded by `reference` (the worst cost and accuracy that still count)."""
    worst_cost, worst_accuracy = reference
    inside = values[(values[:, 0] < worst_cost) & (values[:, 1] > worst_accuracy)]
    area, floor = 0.0, worst_accuracy
    for cost, accuracy in inside[np.lexsort((-inside[:, 1], inside[:, 0]))]:
        if accuracy > floor:
            area += (worst_cost - cost) * (accuracy - floor)
            floor = accuracy
    return float(area)


def igd_plus(values: Values, reference: Values) -> float:
    """IGD+: how far, on average, each reference point is from being matched (only what is worse counts)."""
    shortfall = _shortfall(values, reference)
    return float(np.sqrt((np.maximum(shortfall, 0.0) ** 2).sum(axis=-1)).min(axis=1).mean())


def additive_epsilon(values: Values, reference: Values) -> float:
    """The least ε which, given to every point in both directions, makes them match the whole reference."""
    return float(_shortfall(values, reference).max(axis=-1).min(axis=1).max())


def _shortfall(values: Values, reference: Values) -> Values:
    """How much worse each point is than each reference point: [n, 2], [m, 2] -> [m, n, 2]."""
    gap: Values = (values[None, :, :] - reference[:, None, :]) * np.array([1.0, -1.0])
    return gap
