"""Select configurations of a level by leave-one-out estimates: its anchors, and those that the predictor may choose from.

An input's loss under a configuration is estimated from the samples like it, itself left out. The loss saturates
(`saturating_loss`), so that no sample outweighs the others. A choice by input is taken only where it beats the best single
configuration on left-out samples, by more than their noise, and not by one sample alone. Of sets that are about as good the
smallest is taken: a configuration more is one more to mistake for the best.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

from torch import Tensor

from vispco.pruner.kernel_regression import saturating_loss
from vispco.search.joint.instruction_groups import leave_one_out_means

_NOISE = 0.5  # standard errors: a difference that is smaller is none


@dataclass(frozen=True, eq=False)
class ConfigurationChoice:
    """The configurations of a level that are kept, and the KL [M] of left-out samples.

    static, predictor, oracle: with the best single configuration, the estimated choice, and the best choice in `columns`.
    loss: the mean saturating loss of the estimated choice.
    """

    columns: list[int]
    loss: float
    static: Tensor
    predictor: Tensor
    oracle: Tensor


def choose_configurations(kl: Tensor, estimate: Tensor) -> ConfigurationChoice:
    """The subset of the columns of kl [M, K] whose choice by estimate [M, K] loses least.

    estimate: of the saturating loss of each sample, from the other samples alone.
    """
    loss = saturating_loss(kl)
    best = int(loss.mean(0).argmin())
    sets: list[tuple[list[int], Tensor]] = [([best], loss[:, best])]
    places = range(kl.shape[1])
    for columns in (list(each) for size in range(2, len(places) + 1) for each in combinations(places, size)):
        lost, chosen = (_chosen_values(values, estimate, columns) for values in (loss, kl))
        if float(chosen.mean()) <= float(kl[:, best].mean()) and is_gain(loss[:, best] - lost):
            sets.append((columns, lost))
    least = min(sets, key=lambda each: float(each[1].mean()))[1]
    columns, lost = min(
        (each for each in sets if not _is_above_noise(each[1] - least)),
        key=lambda each: (len(each[0]), float(each[1].mean())),
    )
    static, chosen = kl[:, best], _chosen_values(kl, estimate, columns)
    return ConfigurationChoice(columns, float(lost.mean()), static, chosen, kl[:, columns].min(-1).values)


def choice_loss(kl: Tensor, groups: Tensor, known: int) -> Tensor:
    """The saturating loss [M] of samples that choose by what the first `known` of them say, each itself left out.

    kl: [M, K], of the configurations of one level. Both which configurations there are to choose from, and which of them a
    sample takes, follow from those alone.
    """
    loss = saturating_loss(kl)
    estimate = leave_one_out_means(loss, groups, known)
    columns = choose_configurations(kl[:known], estimate[:known]).columns
    return _chosen_values(loss, estimate, columns)


def select_anchors(kl: Tensor, groups: Tensor, size: int) -> list[int]:
    """At most `size` columns of kl [M, N]: the best alone, then those that a choice by group gains from."""
    loss = saturating_loss(kl)
    estimate, chosen = leave_one_out_means(loss, groups), [int(loss.mean(0).argmin())]
    taken = loss[:, chosen[0]]
    while len(chosen) < min(size, kl.shape[1]):
        options = []
        for place in sorted(set(range(kl.shape[1])) - set(chosen)):
            columns = [*chosen, place]
            own = _chosen_values(loss, estimate, columns)
            options.append((float(own.mean()), place, own))
        _, place, own = min(options, key=lambda option: option[:2])
        gain = taken - own
        if float(gain.sum() - gain.max()) <= 0:
            break
        chosen.append(place)
        taken = own
    return chosen


def greedy_anchors(kl: Tensor, estimate: Tensor, size: int) -> list[int]:
    """The `size` columns of kl [M, N] that are best together if each row chooses by `estimate` [M, N].

    The first is the best alone. Each further one lowers the mean KL of the choice the most.
    """
    chosen = [int(kl.mean(0).argmin())]
    while len(chosen) < min(size, kl.shape[1]):
        left = [i for i in range(kl.shape[1]) if i not in chosen]
        means = [float(_chosen_values(kl, estimate, [*chosen, i]).mean()) for i in left]
        chosen.append(left[min(range(len(left)), key=means.__getitem__)])
    return chosen


def is_gain(gain: Tensor, errors: float = _NOISE) -> bool:
    """Whether the mean of a gain [M] is above so many standard errors, and above 0 without its largest value."""
    return _is_above_noise(gain, errors) and bool(gain.sum() - gain.max() > 0)


def _is_above_noise(difference: Tensor, errors: float = _NOISE) -> bool:
    """Whether the mean of a difference [M] is more than noise."""
    return bool(difference.mean() > errors * difference.std() / len(difference) ** 0.5)


def _chosen_values(values: Tensor, estimate: Tensor, columns: list[int]) -> Tensor:
    """The values [M] of the one of some columns that has the least estimate in each row. values, estimate: [M, N]."""
    return values[:, columns].gather(1, estimate[:, columns].argmin(-1, keepdim=True))[:, 0]
