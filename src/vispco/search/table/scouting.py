"""From batches to a predictor taught by a table: pick anchors that serve well together, measure them, learn to choose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from vispco.kernels import Kernel
from vispco.planning.found_shape import Found
from vispco.planning.observation import join
from vispco.planning.predictor import Predictor
from vispco.planning.similarity import alike
from vispco.search.batch import Batch
from vispco.search.objective import Objective
from vispco.search.shapes.halving import kl_tried
from vispco.search.shapes.pool import Pool
from vispco.search.table.kl_table import Fitted, Table, drawn_budgets, stacked, tabulate
from vispco.search.table.network import Fit, fit
from vispco.search.table.recall import greedy, remembered

Tell = Callable[[float, str], None]
"""(passes over a batch that were made, in units of the unpruned one; what was done)."""


@dataclass(frozen=True)
class Lesson:
    """How much is measured.

    scouting: budgets, each with anchors of its own for the budgets around it. explore: shapes that are looked at on the
    first `scouts` samples at each. shortlist: those of them that come to a second look, on four times as many samples,
    with half as many neighbours. anchors: those of a budget that are tabulated on all samples, at `draws` budgets near it
    for each batch; twice as many come to a third look, on twelve times as many samples.
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
    tell: Tell = lambda *_: None,
    **options: Any,
) -> Taught:
    """Teach a fresh predictor; `options` go to its config (width, queries, dropout). tell: as work goes on (`passes`)."""
    measured = measure(objective, batches, kernel, lesson, tell)
    return learn(objective, kernel, measured, plan=plan, cost=cost, **options)


def passes(lesson: Lesson, batches: Sequence[Batch]) -> float:
    """About how many passes over a batch all of it takes, in units of the unpruned one: what `tell` adds up to."""
    first, second, third = map(len, _looked_at(lesson, batches))
    shapes = lesson.shortlist + lesson.shortlist // 2
    looks = (lesson.explore or lesson.shortlist) * first + shapes * second + 2 * lesson.anchors * (third - second)
    table = lesson.draws * lesson.anchors * (len(batches) - third)
    return sum(lesson.scouting) * (looks + table)


def measure(
    objective: Objective,
    batches: Sequence[Batch],
    kernel: Kernel,
    lesson: Lesson | None = None,
    tell: Tell = lambda *_: None,
) -> tuple[Table, Tensor, Tensor]:
    """All that runs the language model: the table, anchors [K, P] and their reach [K, 2]."""
    lesson = lesson or Lesson()
    anchors, reach, looked_at = scouted(objective, batches, kernel, lesson, tell)
    ranges = _near(lesson)
    drawn = drawn_budgets(len(batches) * lesson.draws * len(ranges), ranges).view(len(batches), -1)
    told = len(_looked_at(lesson, batches)[-1])  # batches that have told of these anchors at just these budgets
    table = looked_at
    if told < len(batches):
        samples = len(looked_at) // len(ranges)
        rest = tabulate(objective, batches[told:], kernel, anchors, drawn[told:], reach, number=samples, tell=tell)
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
    plan = plan or Fit()

    def made(anchors: int, **more: Any) -> Predictor:
        found = Predictor.for_model(objective.model, kernel, objective.scorer, cost=cost, anchors=anchors, **more)
        found.to(objective.model.device)
        return found

    if plan.way == "network":
        predictor = made(len(anchors), **{"dropout": 0.1, **options})
        return Taught(predictor, table, anchors, reach, fit(predictor, table, anchors, plan, reach))
    seen, told, kept, fitted = remembered(table)
    columns = [column for one in kept for column in one.columns]
    warmth = torch.tensor([one.warmth for one in kept for _ in one.columns])
    predictor = made(len(columns), **{**options, "memory": len(seen)})
    predictor.anchors.copy_(anchors[columns])
    predictor.reach.copy_(reach[columns])
    if predictor.memory is not None:
        predictor.memory.remember(seen, told[:, columns], warmth)
    rows = table.kl[:, columns].isfinite().any(-1).nonzero()[:, 0]
    left = replace(table.take(rows), kl=table.kl[rows][:, columns])
    return Taught(predictor.eval(), left, anchors[columns], reach[columns], fitted)


def scouted(
    objective: Objective, batches: Sequence[Batch], kernel: Kernel, lesson: Lesson, tell: Tell = lambda *_: None
) -> tuple[Tensor, Tensor, Table]:
    """Anchors [K, P], their reach [K, 2], and what was seen of them: for each scouting budget three looks and a choice."""
    found, reach, seen = [], [], []
    for budget, ends in zip(sorted(lesson.scouting), _ranges(lesson), strict=True):
        anchors, kl = _scouted_at(objective, batches, kernel, budget, lesson, tell)
        found.append(anchors)
        reach.append(torch.tensor([ends] * len(anchors), dtype=torch.float64))
        seen.append((budget, kl))
    return torch.cat(found), torch.cat(reach), _seen(seen, _looked_at(lesson, batches)[-1])


def _scouted_at(
    objective: Objective, batches: Sequence[Batch], kernel: Kernel, budget: float, lesson: Lesson, tell: Tell
) -> tuple[Tensor, Tensor]:
    """Anchors [K, P] for one budget and their KL [samples of the last look, K].

    Many shapes on few samples; the better ones, and the neighbours of the best that were not looked at, on more; of
    these the best ones on more still. The anchors are those that serve best together if each sample chooses by what the
    others that are like it needed.
    """
    pool = Pool.at(objective, kernel, budget, batches[:8])
    first, second, third = _looked_at(lesson, batches)

    def look(places: Tensor, at: Sequence[Batch]) -> Tensor:  # [samples, N]
        if not len(places) or not at:
            return torch.empty(sum(map(len, at)), len(places))
        kls = []
        for batch in at:
            kls.append(kl_tried(objective, batch, kernel, pool.params[places], budget).T.cpu())
            tell(budget * len(places), f"budget {budget:g}: {len(places)} shapes")
        return torch.cat(kls)

    wide = pool.some(lesson.explore)
    kl = look(wide, first)
    best = _listed(kl, first, lesson.shortlist)
    near = pool.beside(
        wide[kl.mean(0).argsort(stable=True)[: max(1, lesson.shortlist // 4)]], wide, lesson.shortlist // 2
    )
    places = torch.cat([wide[best], near])
    kl = torch.cat([kl[:, best], look(near, first)], dim=1)
    kl = torch.cat([kl, look(places, second[len(first) :])])
    best = _listed(kl, second, 2 * lesson.anchors)
    kl = torch.cat([kl[:, best], look(places[best], third[len(second) :])])
    chosen = greedy(kl, _told(kl, third), lesson.anchors)
    return pool.params[places[best][chosen]], kl[:, chosen]


def _looked_at(lesson: Lesson, batches: Sequence[Batch]) -> tuple[Sequence[Batch], ...]:
    """Batches of the first look, of the second (four times as many) and of the third (twelve times)."""
    near = max(1, round(lesson.scouts / len(batches[0])))
    return batches[:near], batches[: 4 * near], batches[: 12 * near]


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
    """KL [M, N] as the *other* samples that are like each one tell it."""
    return alike(join([b.observation.to("cpu") for b in batches])) @ measured


def _listed(measured: Tensor, batches: Sequence[Batch], size: int) -> Tensor:
    """Columns of measured [M, N]: one half by their mean, the other by what they add to each other."""
    best = measured.mean(0).argsort(stable=True)[: size - size // 2].tolist()
    together = greedy(measured, _told(measured, batches), size)
    return torch.tensor(sorted([*best, *(i for i in together if i not in best)][:size]))
