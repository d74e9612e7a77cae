"""Which configurations of a level the predictor may choose from, and how far similarity reaches: each sample left out once.

An input's loss under a configuration is estimated from the calibration samples that are like it. The loss is bounded
(`planning.memory.bounded`), so that no sample rules its neighbourhood. A choice by input is taken only where it beats the best
single configuration on samples that were left out, by more than a standard error, and not by one sample alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from torch import Tensor

from vispco.planning.memory import bounded
from vispco.planning.observation import Observation
from vispco.planning.similarity import as_points, describe, scales, similarity_weights
from vispco.search.table.memory_fit import BANDWIDTHS, AnchorChoice


def choose_configurations(kl: Tensor, observation: Observation) -> AnchorChoice:
    """The subset of the columns of kl [M, K] whose estimated choice has the least KL on left-out samples."""
    loss, points = bounded(kl), _points(observation)
    best = int(kl.mean(0).argmin())
    static = kl[:, best]
    weights = {width: similarity_weights(points, points, width, leave_out_self=True) for width in BANDWIDTHS}
    reach = min(BANDWIDTHS, key=lambda width: float((weights[width] @ loss[:, best] - loss[:, best]).square().mean()))
    found, least = AnchorChoice([best], reach, static, static, static), float(static.mean())
    for width, own in weights.items():
        estimate = own @ loss
        for columns in _sets_with(best, kl.shape[1]):
            chosen = kl[:, columns].gather(1, estimate[:, columns].argmin(-1, keepdim=True))[:, 0]
            if float(chosen.mean()) < least and is_gain(static - chosen):
                least = float(chosen.mean())
                found = AnchorChoice(columns, width, static, chosen, kl[:, columns].min(-1).values)
    return found


def useful_anchors(kl: Tensor, observation: Observation, size: int) -> list[int]:
    """Columns of kl [M, N], at most so many: the best alone, then those that a choice by input gains from."""
    points = _points(observation)
    estimate = similarity_weights(points, points, leave_out_self=True) @ bounded(kl)
    chosen = [int(kl.mean(0).argmin())]
    taken = kl[:, chosen[0]]
    while len(chosen) < min(size, kl.shape[1]):
        options = []
        for place in sorted(set(range(kl.shape[1])) - set(chosen)):
            columns = [*chosen, place]
            own = kl[:, columns].gather(1, estimate[:, columns].argmin(-1, keepdim=True))[:, 0]
            options.append((float(own.mean()), place, own))
        _, place, own = min(options, key=lambda option: option[:2])
        gain = taken - own
        if float(gain.sum() - gain.max()) <= 0:
            break
        chosen.append(place)
        taken = own
    return chosen


def is_gain(gain: Tensor) -> bool:
    """Whether the mean of a gain [M] is above its standard error, and above 0 without its largest value."""
    return bool(gain.mean() > gain.std() / len(gain) ** 0.5) and bool(gain.sum() - gain.max() > 0)


def _sets_with(best: int, count: int) -> Iterator[list[int]]:
    """All sets of two and more columns that contain the best one."""
    others = [place for place in range(count) if place != best]
    for size in range(1, len(others) + 1):
        yield from ([best, *each] for each in combinations(others, size))


def _points(observation: Observation) -> Tensor:
    raw = describe(observation)
    return as_points(raw, *scales(raw))
