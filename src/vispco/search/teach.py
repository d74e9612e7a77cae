"""From batches to a predictor taught by a table: pick anchors that serve well together, measure them, learn to choose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from vispco.kernels import Kernel
from vispco.search.batch import Batch
from vispco.search.draws import floors
from vispco.search.found import Found
from vispco.search.halving import kl_of
from vispco.search.objective import Objective
from vispco.search.predictor import Predictor
from vispco.search.shapes import shapes
from vispco.search.table import Fit, Fitted, Table, choose_anchors, drawn_budgets, fit, tabulate


@dataclass(frozen=True)
class Lesson:
    """How much is measured.

    explore: shapes that are looked at on the first `scouts` samples, at the `scouting` budgets. shortlist: those that
    each of these budgets brings to a second look, on as many samples. anchors: K, those that are tabulated on all
    samples, each at `draws` budgets of its own.
    """

    anchors: int = 8
    explore: int | None = 48
    scouts: int = 32
    shortlist: int = 6
    scouting: tuple[float, ...] = (0.3, 0.5, 0.7)
    draws: int = 1
    lowest: float | None = None  # budgets are drawn from here to 1; None for the highest floor of the samples


@dataclass(frozen=True, eq=False)
class Taught:
    """A predictor, what it learned from, and how it does on rows that it has not learned from."""

    predictor: Predictor
    table: Table
    anchors: Tensor
    fitted: Fitted

    def best_static(self, budget: float, reach: float = 0.1) -> Found:
        """The one anchor that is best for all rows with a budget within `reach` of this one."""
        near = (self.table.budget - budget).abs() <= reach
        kl = self.table.kl[near if bool(near.any()) else slice(None)].mean(0)
        return Found(budget, self.anchors[kl.argmin()].double(), float(kl.min()))


def teach(
    objective: Objective,
    batches: Sequence[Batch],
    kernel: Kernel,
    *,
    lesson: Lesson | None = None,
    plan: Fit | None = None,
    cost: str = "exact",
    **options: Any,
) -> Taught:
    """Teach a fresh predictor; `options` go to its config (width, queries, dropout)."""
    lesson = lesson or Lesson()
    lowest = _highest_floor(batches, objective, kernel) if lesson.lowest is None else lesson.lowest
    anchors = scouted(objective, batches, kernel, lesson, lowest)
    drawn = drawn_budgets(len(batches) * lesson.draws, lowest).view(len(batches), lesson.draws)
    table = tabulate(objective, batches, kernel, anchors, drawn)
    predictor = Predictor.for_model(
        objective.model, kernel, objective.scorer, cost=cost, anchors=len(anchors), **{"dropout": 0.1, **options}
    )
    predictor.to(objective.model.device)
    return Taught(predictor, table, anchors, fit(predictor, table, anchors, plan))


def scouted(
    objective: Objective, batches: Sequence[Batch], kernel: Kernel, lesson: Lesson, lowest: float = 0.0
) -> Tensor:
    """Anchors [K, P]: a wide look at many shapes, a second one at the best of each budget, a greedy choice by both."""
    pool = shapes(kernel, objective.cost.num_layers, limit=lesson.explore)
    near = max(1, round(lesson.scouts / len(batches[0])))
    first, second = batches[:near], batches[near : 2 * near]

    def look(at: Tensor, scouts: Sequence[Batch]) -> list[Tensor]:
        budgets = [max(budget, lowest) for budget in lesson.scouting]
        return [torch.cat([kl_of(objective, b, kernel, at, budget).cpu() for b in scouts], dim=1) for budget in budgets]

    wide = look(pool, first)  # for each budget, [N, samples]
    listed = {int(i) for kl in wide for i in kl.mean(-1).argsort(stable=True)[: lesson.shortlist]}
    listed |= set(choose_anchors(torch.cat(wide, dim=1), lesson.anchors))
    rows = torch.tensor(sorted(listed))
    measured = torch.cat(wide, dim=1)[rows]
    if second:
        measured = torch.cat([measured, *look(pool[rows], second)], dim=1)
    return pool[rows[choose_anchors(measured, lesson.anchors)]]


def _highest_floor(batches: Sequence[Batch], objective: Objective, kernel: Kernel) -> float:
    site = objective.scorer.site
    found = [floors(b, objective.cost, site, first_full=kernel.first_full).max() for b in batches]
    return float(torch.stack(found).max())
