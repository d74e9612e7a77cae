"""Ours: a predictor that remembers. What shapes did the calibration samples need that are most like this one?

For a new sample, each anchor's KL is the mean over the calibration samples, weighted by likeness, and the anchor with the
least is taken. Which anchors are worth keeping, and how far likeness reaches, is decided by leaving each sample out once:
an anchor that does well on samples nobody can tell beforehand only adds noise to the choice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import torch
from torch import Tensor

from vispco.planning.observation import Observation
from vispco.planning.similarity import described, placed, scales, weights
from vispco.search.table.kl_table import Fitted, Table

WARMTHS = (0.05, 0.1, 0.15, 0.2, 0.3, 0.5)
MOST = 4096  # samples that are remembered
MANY = 6  # anchors of one range, of which still every set is looked at


@dataclass(frozen=True, eq=False)
class Worth:
    """Anchors of one range of budgets that are worth a choice: their columns, the warmth, and KL with each row left out.

    static, predictor, oracle: [rows], by the one best anchor, by the choice, by the best choice among `columns`.
    """

    columns: list[int]
    warmth: float
    static: Tensor
    predictor: Tensor
    oracle: Tensor


def worth(kl: Tensor, observation: Observation) -> Worth:
    """Which anchors of kl [M, K] to choose among, so that the choice for a left-out sample is best.

    If none is better than the one best anchor by a standard error, that one alone.
    """
    raw = described(observation)
    points, best = placed(raw, *scales(raw)), int(kl.mean(0).argmin())
    static = kl[:, best]
    found = Worth([best], WARMTHS[0], static, static, static)
    least = float(static.mean())
    for warmth in WARMTHS:
        told = weights(points, points, warmth, alone=True) @ kl
        for columns in _with(best, kl.shape[1]):
            own = _picked(kl, told, columns)
            gain = static - own
            if float(own.mean()) < least and gain.mean() > gain.std() / len(gain) ** 0.5:
                least = float(own.mean())
                found = Worth(columns, warmth, static, own, kl[:, columns].min(-1).values)
    return found


def greedy(kl: Tensor, told: Tensor, size: int) -> list[int]:
    """The `size` columns of kl [M, N] that serve best together if each row chooses by `told` [M, N] (rows left out).

    The first is the best alone; each next one lowers the mean KL of the choice the most.
    """
    chosen = [int(kl.mean(0).argmin())]
    while len(chosen) < min(size, kl.shape[1]):
        left = [i for i in range(kl.shape[1]) if i not in chosen]
        means = [float(_picked(kl, told, [*chosen, i]).mean()) for i in left]
        chosen.append(left[min(range(len(left)), key=means.__getitem__)])
    return chosen


def remembered(table: Table) -> tuple[Observation, Tensor, list[Worth], Fitted]:
    """Each sample once, its KL under every anchor [M, K], what is worth keeping by range, and how that does."""
    index = torch.arange(len(table)) if table.sample is None else table.sample
    names, place = torch.unique(index, return_inverse=True)
    finite = table.kl.isfinite()
    shape = (len(names), table.kl.shape[1])
    sums = torch.zeros(shape).index_add_(0, place, table.kl.masked_fill(~finite, 0.0).float())
    counts = torch.zeros(shape).index_add_(0, place, finite.float())
    first = torch.full((len(names),), len(table)).scatter_reduce(0, place, torch.arange(len(table)), reduce="amin")
    seen, told = table.observation.take(first[:MOST]), (sums / counts.clamp_min(1))[:MOST]
    kept = []
    for every, columns in table.bands:
        rows = every[:MOST]
        one = worth(table.kl[rows][:, columns], table.observation.take(rows))
        kept.append(Worth([columns[i] for i in one.columns], one.warmth, one.static, one.predictor, one.oracle))
    means = (torch.cat([getattr(one, name) for one in kept]).mean() for name in ("static", "predictor", "oracle"))
    return seen, told, kept, Fitted(*(float(mean) for mean in means))


def _with(best: int, count: int) -> Iterator[list[int]]:
    """All sets of two and more columns that have the best one; of many columns, sets of up to three."""
    others = [i for i in range(count) if i != best]
    most = len(others) if count <= MANY else 2
    for size in range(1, most + 1):
        yield from ([best, *each] for each in combinations(others, size))


def _picked(kl: Tensor, told: Tensor, columns: list[int]) -> Tensor:
    return kl[:, columns].gather(1, told[:, columns].argmin(-1, keepdim=True))[:, 0]
