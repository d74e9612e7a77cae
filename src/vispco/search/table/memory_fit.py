"""Fit a predictor that remembers the calibration samples: which shapes did the samples most similar to this one need?

For a new sample, the KL of each anchor is estimated as the mean over the calibration samples, weighted by similarity, and
the anchor with the least estimate is taken. Which anchors are kept, and how far similarity reaches, is decided by leaving
each sample out once: an anchor that is good only on samples that cannot be recognised adds noise to the choice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations

import torch
from torch import Tensor

from vispco.pruner.observation import Observation
from vispco.pruner.sample_features import feature_scales, kernel_weights, raw_features, scaled_features
from vispco.search.table.kl_table import HeldOutKl, KlTable

BANDWIDTHS = (0.05, 0.1, 0.15, 0.2, 0.3, 0.5)
MAX_SAMPLES = 4096  # samples that are remembered
MAX_EXHAUSTIVE = 6  # with up to so many anchors in a budget group, every subset is tried


@dataclass(frozen=True, eq=False)
class AnchorChoice:
    """The anchors of one budget group that are kept: their columns, the bandwidth, and leave-one-out KL.

    static, predictor, oracle: [rows], with the best static anchor, the estimated choice, the best choice in `columns`.
    """

    columns: list[int]
    bandwidth: float
    static: Tensor
    predictor: Tensor
    oracle: Tensor


@dataclass(frozen=True, eq=False)
class MemoryFit:
    """Each sample once, its KL under every anchor [M, K], the choice of each budget group, and the KL that it gives."""

    observation: Observation
    kl: Tensor
    choices: list[AnchorChoice]
    held_out: HeldOutKl


def fit_memory(table: KlTable) -> MemoryFit:
    """What to remember of a table, and which anchors to keep."""
    index = torch.arange(len(table)) if table.sample is None else table.sample
    numbers, row_sample = torch.unique(index, return_inverse=True)
    finite = table.kl.isfinite()
    shape = (len(numbers), table.kl.shape[1])
    sums = torch.zeros(shape).index_add_(0, row_sample, table.kl.masked_fill(~finite, 0.0).float())
    counts = torch.zeros(shape).index_add_(0, row_sample, finite.float())
    first_row = torch.full((len(numbers),), len(table)).scatter_reduce(
        0, row_sample, torch.arange(len(table)), reduce="amin"
    )
    choices = []
    for group, columns in table.budget_groups:
        rows = group[:MAX_SAMPLES]
        choice = choose_anchors(table.kl[rows][:, columns], table.observation.take(rows))
        choices.append(replace(choice, columns=[columns[i] for i in choice.columns]))
    means = (torch.cat([getattr(c, name) for c in choices]).mean() for name in ("static", "predictor", "oracle"))
    return MemoryFit(
        table.observation.take(first_row[:MAX_SAMPLES]),
        (sums / counts.clamp_min(1))[:MAX_SAMPLES],
        choices,
        HeldOutKl(*(float(mean) for mean in means)),
    )


def choose_anchors(kl: Tensor, observation: Observation) -> AnchorChoice:
    """The subset of the anchors of kl [M, K] whose estimated choice has the least KL on left-out samples.

    Only the best static anchor, if no subset is better than it by more than a standard error.
    """
    raw = raw_features(observation)
    points, best = scaled_features(raw, *feature_scales(raw)), int(kl.mean(0).argmin())
    static = kl[:, best]
    found = AnchorChoice([best], BANDWIDTHS[0], static, static, static)
    least = float(static.mean())
    for bandwidth in BANDWIDTHS:
        estimate = kernel_weights(points, points, bandwidth, leave_one_out=True) @ kl
        for columns in _column_sets(best, kl.shape[1]):
            chosen = chosen_values(kl, estimate, columns)
            gain = static - chosen
            if float(chosen.mean()) < least and gain.mean() > gain.std() / len(gain) ** 0.5:
                least = float(chosen.mean())
                found = AnchorChoice(columns, bandwidth, static, chosen, kl[:, columns].min(-1).values)
    return found


def greedy_anchors(kl: Tensor, estimate: Tensor, size: int) -> list[int]:
    """The `size` columns of kl [M, N] that serve best together if each row chooses by `estimate` [M, N].

    The first is the best alone. Each further one lowers the mean KL of the choice the most.
    """
    chosen = [int(kl.mean(0).argmin())]
    while len(chosen) < min(size, kl.shape[1]):
        left = [i for i in range(kl.shape[1]) if i not in chosen]
        means = [float(chosen_values(kl, estimate, [*chosen, i]).mean()) for i in left]
        chosen.append(left[min(range(len(left)), key=means.__getitem__)])
    return chosen


def _column_sets(best: int, count: int) -> Iterator[list[int]]:
    """All sets of two and more columns that contain the best one; of many columns, sets of up to three."""
    others = [i for i in range(count) if i != best]
    most = len(others) if count <= MAX_EXHAUSTIVE else 2
    for size in range(1, most + 1):
        yield from ([best, *each] for each in combinations(others, size))


def chosen_values(values: Tensor, estimate: Tensor, columns: list[int]) -> Tensor:
    """The values [M] of the one of some columns that has the least estimate in each row. values, estimate: [M, N]."""
    return values[:, columns].gather(1, estimate[:, columns].argmin(-1, keepdim=True))[:, 0]
