"""From batches to a predictor taught by a table: pick anchors that serve well together, measure them, learn to choose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from vispco.kernels import Kernel
from vispco.search.batch import Batch
from vispco.search.found import Found
from vispco.search.halving import kl_tried
from vispco.search.objective import Objective
from vispco.search.observation import join
from vispco.search.predictor import Predictor
from vispco.search.shapes import shapes
from vispco.search.table import Fit, Fitted, Table, alike, choose_anchors, drawn_budgets, fit, stacked, tabulate


@dataclass(frozen=True)
class Lesson:
    """How much is measured.

    scouting: budgets, each with anchors of its own for the budgets around it. explore: shapes that are looked at on the
    first `scouts` samples at each. shortlist: those that come to a second look, on three times as many samples. anchors:
    those of a budget that are tabulated on all samples, at `draws` budgets near it for each batch.
    """

    anchors: int = 4
    explore: int | None = 64
    scouts: int = 16
    shortlist: int = 16
    scouting: tuple[float, ...] = (0.3, 0.4, 0.5, 0.7)
    draws: int = 1
    near: float = 0.25  # how near, as a share of the way to the next scouting budget


@dataclass(frozen=True, eq=False)
class Taught:
    """A predictor, what it learned from, and how it does on rows that it has not learned from."""

    predictor: Predictor
    table: Table
    anchors: Tensor
    reach: Tensor
    fitted: Fitted

    def meant(self, budget: float) -> Tensor:
        """The anchors among which a budget has the choice: bool [K]."""
        return (self.reach[:, 0] <= budget) & (budget < self.reach[:, 1])

    def best_static(self, budget: float, reach: float = 0.1) -> Found:
        """The one anchor of a budget that is best for all rows with a budget within `reach` of it."""
        rows = self.table.kl[:, self.meant(budget)]
        measured = rows.isfinite().all(-1)
        near = measured & ((self.table.budget - budget).abs() <= reach)
        kl = rows[near if bool(near.any()) else measured].mean(0)
        return Found(budget, self.anchors[self.meant(budget)][kl.argmin()].double(), float(kl.min()))


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
    measured = measure(objective, batches, kernel, lesson)
    return learn(objective, kernel, measured, plan=plan, cost=cost, **options)


def measure(
    objective: Objective, batches: Sequence[Batch], kernel: Kernel, lesson: Lesson | None = None
) -> tuple[Table, Tensor, Tensor]:
    """All that runs the language model: the table, anchors [K, P] and their reach [K, 2]."""
    lesson = lesson or Lesson()
    anchors, reach, looked_at = scouted(objective, batches, kernel, lesson)
    ranges = _near(lesson)
    drawn = drawn_budgets(len(batches) * lesson.draws * len(ranges), ranges).view(len(batches), -1)
    told = 4 * _scouts(lesson, batches)  # batches whose scouts have told of these anchors at just these budgets
    table = looked_at
    if told < len(batches):
        samples = len(looked_at) // len(ranges)
        rest = tabulate(objective, batches[told:], kernel, anchors, drawn[told:], reach, number=samples)
        table = stacked([looked_at, rest])
    return table, anchors, reach


def learn(
    objective: Objective,
    kernel: Kernel,
    measured: tuple[Table, Tensor, Tensor],
    *,
    plan: Fit | None = None,
    cost: str = "exact",
    **options: Any,
) -> Taught:
    """A predictor from what was measured; the language model rests."""
    table, anchors, reach = measured
    predictor = Predictor.for_model(
        objective.model, kernel, objective.scorer, cost=cost, anchors=len(anchors), **{"dropout": 0.1, **options}
    )
    predictor.to(objective.model.device)
    return Taught(predictor, table, anchors, reach, fit(predictor, table, anchors, plan, reach))


def scouted(
    objective: Objective, batches: Sequence[Batch], kernel: Kernel, lesson: Lesson
) -> tuple[Tensor, Tensor, Table]:
    """Anchors [K, P], their reach [K, 2], and what was seen of them: for each scouting budget two looks and a choice."""
    pool = shapes(kernel, objective.cost.num_layers, limit=lesson.explore)
    near = _scouts(lesson, batches)
    first, scouts = batches[:near], batches[: 4 * near]
    found, reach, seen = [], [], []
    for budget, ends in zip(sorted(lesson.scouting), _ranges(lesson), strict=True):

        def look(at: Tensor, scouts: Sequence[Batch], budget: float = budget) -> Tensor:
            return torch.cat([kl_tried(objective, b, kernel, at, budget).cpu() for b in scouts], dim=1)

        wide = look(pool, first)  # [N, samples]
        rows = torch.tensor(_listed(wide, first, lesson.shortlist))
        measured = wide[rows]
        if len(scouts) > near:
            measured = torch.cat([measured, look(pool[rows], scouts[near:])], dim=1)
        chosen = choose_anchors(_told(measured, scouts), lesson.anchors)
        found.append(pool[rows[chosen]])
        reach.append(torch.tensor([ends] * len(chosen), dtype=torch.float64))
        seen.append((budget, measured[chosen].T))  # [samples, K of this budget]
    return torch.cat(found), torch.cat(reach), _seen(seen, scouts)


def _scouts(lesson: Lesson, batches: Sequence[Batch]) -> int:
    """Batches of the first look; the second one sees three times as many more."""
    return max(1, round(lesson.scouts / len(batches[0])))


def _near(lesson: Lesson) -> list[tuple[float, float]]:
    """A narrow range around each scouting budget, from which the table's budgets are drawn."""
    centres = sorted(lesson.scouting)
    ways = [b - a for a, b in pairwise([0.0, *centres, 1.0])]
    room = [lesson.near * min(before, behind) for before, behind in pairwise(ways)]
    return [(centre - each, centre + each) for centre, each in zip(centres, room, strict=True)]


def _ranges(lesson: Lesson) -> list[tuple[float, float]]:
    """The budgets around each scouting budget, from the middle to its neighbour on either side."""
    centres = sorted(lesson.scouting)
    return list(pairwise([-1.0, *((a + b) / 2 for a, b in pairwise(centres)), 2.0]))


def _seen(seen: list[tuple[float, Tensor]], scouts: Sequence[Batch]) -> Table:
    """What the scouts told of the anchors, as rows of a table."""
    observation = join([b.observation.to("cpu") for b in scouts])
    widths = [kl.shape[1] for _, kl in seen]
    tables = []
    for number, (budget, kl) in enumerate(seen):
        whole = torch.full((len(kl), sum(widths)), torch.inf)
        start = sum(widths[:number])
        whole[:, start : start + widths[number]] = kl
        budgets = torch.full((len(kl),), budget, dtype=torch.float64)
        tables.append(Table(observation, budgets, whole, torch.arange(len(kl))))
    return stacked(tables)


def _told(measured: Tensor, batches: Sequence[Batch]) -> Tensor:
    """KL [N, M] as far as the samples' instructions tell it apart."""
    return measured @ alike(join([b.observation.to("cpu") for b in batches])).T


def _listed(wide: Tensor, batches: Sequence[Batch], size: int) -> list[int]:
    """One half by their mean, the other by what they add to each other."""
    best = wide.mean(-1).argsort(stable=True)[: size // 2].tolist()
    together = choose_anchors(_told(wide, batches), size)
    return sorted([*best, *(i for i in together if i not in best)][:size])
