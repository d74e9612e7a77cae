"""Which configurations of a level the predictor may choose from: decided on samples that were left out.

An input's loss under a configuration is estimated from the samples like it, itself left out. The loss is bounded
(`planning.memory.bounded`), so that no sample rules the others. A choice by input is taken only where it beats the best single
configuration on samples that were left out, by more than a standard error, and not by one sample alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from torch import Tensor

from vispco.planning.instruction_groups import left_out_means
from vispco.planning.memory import bounded


@dataclass(frozen=True, eq=False)
class ConfigurationChoice:
    """The configurations of a level that are kept, and the KL [M] of left-out samples.

    static, predictor, oracle: with the best single configuration, the estimated choice, and the best choice in `columns`.
    loss: the mean bounded loss of the estimated choice.
    """

    columns: list[int]
    loss: float
    static: Tensor
    predictor: Tensor
    oracle: Tensor


def choose_configurations(kl: Tensor, estimate: Tensor) -> ConfigurationChoice:
    """The subset of the columns of kl [M, K] whose choice by estimate [M, K] loses least.

    estimate: of the bounded loss of each sample, from the other samples alone.
    """
    loss = bounded(kl)
    best = int(loss.mean(0).argmin())
    static, least = kl[:, best], float(loss[:, best].mean())
    found = ConfigurationChoice([best], least, static, static, static)
    for columns in _sets_with(best, kl.shape[1]):
        place = estimate[:, columns].argmin(-1, keepdim=True)
        lost, chosen = (values[:, columns].gather(1, place)[:, 0] for values in (loss, kl))
        better = float(lost.mean()) < least and float(chosen.mean()) <= float(static.mean())
        if better and is_gain(loss[:, best] - lost):
            least = float(lost.mean())
            found = ConfigurationChoice(columns, least, static, chosen, kl[:, columns].min(-1).values)
    return found


def useful_anchors(kl: Tensor, groups: Tensor, size: int) -> list[int]:
    """Columns of kl [M, N], at most so many: the best alone, then those that a choice by group gains from."""
    loss = bounded(kl)
    estimate, chosen = left_out_means(loss, groups), [int(loss.mean(0).argmin())]
    taken = loss[:, chosen[0]]
    while len(chosen) < min(size, kl.shape[1]):
        options = []
        for place in sorted(set(range(kl.shape[1])) - set(chosen)):
            columns = [*chosen, place]
            own = loss[:, columns].gather(1, estimate[:, columns].argmin(-1, keepdim=True))[:, 0]
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
