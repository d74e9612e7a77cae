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
from vispco.search.halving import rank
from vispco.search.objective import Objective
from vispco.search.predictor import Predictor
from vispco.search.shapes import shapes
from vispco.search.table import Fit, Fitted, Table, choose_anchors, drawn_budgets, fit, tabulate


@dataclass(frozen=True)
class Lesson:
    """How much is measured. anchors: K. scouts: batches on which anchors are chosen. draws: budgets for each batch."""

    anchors: int = 10
    scouts: int = 2
    shortlist: int = 10  # shapes that each scouting budget brings to the final choice
    scouting: tuple[float, ...] = (0.3, 0.5, 0.7)
    draws: int = 1
    lowest: float | None = None  # budgets are drawn from here to 1; None for the highest floor of the samples
    explore: int | None = None  # how many shapes are looked at; None for all


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
    scouts = batches[: lesson.scouts]
    lowest = _highest_floor(batches, objective, kernel) if lesson.lowest is None else lesson.lowest
    scouting = [max(budget, lowest) for budget in lesson.scouting]
    pool = shapes(kernel, objective.cost.num_layers, limit=lesson.explore)
    short = [
        rank(objective, scouts[:1], kernel, pool, budget, keep=lesson.shortlist, rungs=1).params for budget in scouting
    ]
    listed = torch.unique(torch.cat(short), dim=0)
    anchors = choose_anchors(objective, scouts, kernel, listed, scouting, lesson.anchors)
    drawn = drawn_budgets(len(batches) * lesson.draws, lowest).view(len(batches), lesson.draws)
    table = tabulate(objective, batches, kernel, anchors, drawn)
    predictor = Predictor.for_model(
        objective.model, kernel, objective.scorer, cost=cost, anchors=len(anchors), **{"dropout": 0.1, **options}
    )
    return Taught(predictor, table, anchors, fit(predictor, table, anchors, plan))


def _highest_floor(batches: Sequence[Batch], objective: Objective, kernel: Kernel) -> float:
    site = objective.scorer.site
    found = [floors(b, objective.cost, site, first_full=kernel.first_full).max() for b in batches]
    return float(torch.stack(found).max())
