"""Scouting: for each of a few budgets, find anchors (kernel shapes) that serve the calibration samples well together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from vispco.kernels import Kernel
from vispco.pruner.observation import join_observations
from vispco.pruner.sample_features import leave_one_out_weights
from vispco.search.batch import Batch
from vispco.search.objective import Objective
from vispco.search.ranks import MeasuringJob, Progress, measure_jobs
from vispco.search.shapes.pool import ShapePool
from vispco.search.table.kl_table import Anchors, KlTable, stack_tables
from vispco.search.table.memory_fit import greedy_anchors


@dataclass(frozen=True)
class ScoutingSettings:
    """How much is measured.

    budgets: the scouting budgets. Each gets its own anchors, which serve the budgets around it.
    explore: number of shapes that are measured at each budget on the first `scouts` samples; None for all shapes.
    shortlist: number of shapes that are then measured on four times as many samples, with half as many neighbours.
    anchors: number of anchors of each budget. Twice as many shapes are measured a third time, on twelve times as many
    samples. The anchors are then measured on all samples, at `draws` budgets for each batch.
    near: half the width of the range from which these budgets are drawn, as a share of the distance to the next budget.
    """

    anchors: int = 4
    explore: int | None = 64
    scouts: int = 16
    shortlist: int = 16
    budgets: tuple[float, ...] = (0.3, 0.4, 0.5, 0.7)
    draws: int = 1
    near: float = 0.25

    def served_ranges(self) -> list[tuple[float, float]]:
        """The budgets that each scouting budget serves: up to half-way to its neighbours."""
        centres = sorted(self.budgets)
        return list(pairwise([-1.0, *((a + b) / 2 for a, b in pairwise(centres)), 2.0]))

    def table_ranges(self) -> list[tuple[float, float]]:
        """The narrow range around each scouting budget from which the table's budgets are drawn."""
        centres = sorted(self.budgets)
        gaps = [b - a for a, b in pairwise([0.0, *centres, 1.0])]
        half_widths = [self.near * min(below, above) for below, above in pairwise(gaps)]
        return [(centre - half, centre + half) for centre, half in zip(centres, half_widths, strict=True)]

    def batches_by_look(self, batches: Sequence[Batch]) -> tuple[Sequence[Batch], ...]:
        """The batches of the first, second and third look at shapes; each contains those before it."""
        few = max(1, round(self.scouts / len(batches[0])))
        return batches[:few], batches[: 4 * few], batches[: 12 * few]

    def num_passes(self, batches: Sequence[Batch]) -> float:
        """About how many passes over a batch scouting and the table take, in units of the unpruned pass."""
        first, second, third = map(len, self.batches_by_look(batches))
        shapes = self.shortlist + self.shortlist // 2
        looks = (self.explore or self.shortlist) * first + shapes * second + 2 * self.anchors * (third - second)
        table = self.draws * self.anchors * (len(batches) - third)
        return sum(self.budgets) * (looks + table)


def scout_anchors(
    objective: Objective,
    batches: Sequence[Batch],
    kernel: Kernel,
    settings: ScoutingSettings,
    progress: Progress = lambda *_: None,
) -> tuple[Anchors, KlTable]:
    """The anchors of all scouting budgets, and their KL on the samples of the last look as rows of a table."""
    params, ranges, measured = [], [], []
    for budget, ends in zip(sorted(settings.budgets), settings.served_ranges(), strict=True):
        anchors, kl = _scout_at(objective, batches, kernel, budget, settings, progress)
        params.append(anchors)
        ranges.append(torch.tensor([ends] * len(anchors), dtype=torch.float64))
        measured.append((budget, kl))
    return Anchors(torch.cat(params), torch.cat(ranges)), _as_table(measured, settings.batches_by_look(batches)[-1])


def _scout_at(
    objective: Objective,
    batches: Sequence[Batch],
    kernel: Kernel,
    budget: float,
    settings: ScoutingSettings,
    progress: Progress,
) -> tuple[Tensor, Tensor]:
    """Anchors [K, P] of one budget and their KL [samples of the last look, K].

    Many shapes are measured on few samples. The better ones, and unmeasured neighbours of the best, are measured on more
    samples, and the best of these on still more. The anchors are those that serve best together if each sample chooses
    by the KL of the other samples that are similar to it.
    """
    pool = ShapePool.at(objective, kernel, budget, batches[:8])
    first, second, third = settings.batches_by_look(batches)

    def measure(index: Tensor, on: Sequence[Batch]) -> Tensor:  # [samples, N]
        if not len(index) or not on:
            return torch.empty(sum(map(len, on)), len(index))
        label = f"budget {budget:g}: {len(index)} shapes"
        jobs = [MeasuringJob(batch, pool.params[index], budget, label) for batch in on]
        return torch.cat(measure_jobs(objective, kernel, jobs, progress))

    explored = pool.spread(settings.explore)
    kl = measure(explored, first)
    best = _shortlist(kl, first, settings.shortlist)
    leaders = explored[kl.mean(0).argsort(stable=True)[: max(1, settings.shortlist // 4)]]
    neighbours = pool.nearest(leaders, explored, settings.shortlist // 2)
    index = torch.cat([explored[best], neighbours])
    kl = torch.cat([kl[:, best], measure(neighbours, first)], dim=1)
    kl = torch.cat([kl, measure(index, second[len(first) :])])
    best = _shortlist(kl, second, 2 * settings.anchors)
    kl = torch.cat([kl[:, best], measure(index[best], third[len(second) :])])
    chosen = greedy_anchors(kl, _left_out_estimate(kl, third), settings.anchors)
    return pool.params[index[best][chosen]], kl[:, chosen]


def _as_table(measured: list[tuple[float, Tensor]], batches: Sequence[Batch]) -> KlTable:
    """What scouting measured of the anchors: for each budget one row per sample, infinite KL for other budgets' anchors."""
    observation = join_observations([b.observation.to("cpu") for b in batches])
    widths = [kl.shape[1] for _, kl in measured]
    tables = []
    for number, (budget, kl) in enumerate(measured):
        whole = torch.full((len(kl), sum(widths)), torch.inf)
        start = sum(widths[:number])
        whole[:, start : start + widths[number]] = kl
        budgets = torch.full((len(kl),), budget, dtype=torch.float64)
        tables.append(KlTable(observation, budgets, whole, torch.arange(len(kl))))
    return stack_tables(tables)


def _left_out_estimate(kl: Tensor, batches: Sequence[Batch]) -> Tensor:
    """KL [M, N] of each sample as estimated from the other samples that are similar to it."""
    return leave_one_out_weights(join_observations([b.observation.to("cpu") for b in batches])) @ kl


def _shortlist(kl: Tensor, batches: Sequence[Batch], size: int) -> Tensor:
    """Columns of kl [M, N]: one half by their mean, the other half by how well they serve together."""
    best = kl.mean(0).argsort(stable=True)[: size - size // 2].tolist()
    together = greedy_anchors(kl, _left_out_estimate(kl, batches), size)
    return torch.tensor(sorted([*best, *(i for i in together if i not in best)][:size]))
