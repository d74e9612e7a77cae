"""A predictor from a table of measured KL: scout anchors, measure them on all samples, learn which one to choose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from vispco.kernels import Kernel
from vispco.pruner.found_shape import FoundShape
from vispco.pruner.predictor import Predictor
from vispco.search.batch import Batch
from vispco.search.objective import Objective
from vispco.search.ranks import Progress
from vispco.search.table.kl_table import (
    Anchors,
    HeldOutKl,
    KlTable,
    measure_table,
    spread_budgets,
    stack_tables,
)
from vispco.search.table.memory_fit import fit_memory
from vispco.search.table.network_fit import FitSettings, fit_network
from vispco.search.table.scouting import ScoutingSettings, scout_anchors

NEAR = 0.1  # rows whose budgets differ by at most this decide on the best static anchor of a budget


@dataclass(frozen=True, eq=False)
class TableResult:
    """A predictor, the table and the anchors that it was fitted to, and its KL on rows that were held out."""

    predictor: Predictor
    table: KlTable
    anchors: Anchors
    held_out: HeldOutKl

    def best_static(self, budget: float) -> FoundShape:
        """The anchor of a budget that has the least mean KL over all rows with a similar budget."""
        in_range = self.anchors.in_range(budget)
        rows = self.table.kl[:, in_range]
        measured = rows.isfinite().all(-1)
        near = measured & ((self.table.budget - budget).abs() <= NEAR)
        kl = rows[near if bool(near.any()) else measured].mean(0)
        return FoundShape(budget, self.anchors.params[in_range][kl.argmin()].double(), float(kl.min()))


def train_on_table(
    objective: Objective,
    batches: Sequence[Batch],
    kernel: Kernel,
    *,
    scouting: ScoutingSettings | None = None,
    fit: FitSettings | None = None,
    progress: Progress = lambda *_: None,
    **options: Any,
) -> TableResult:
    """Scout, measure and fit a new predictor. options: of its config (width, queries, dropout)."""
    table, anchors = scout_and_measure(objective, batches, kernel, scouting, progress)
    return fit_predictor(objective, kernel, table, anchors, fit=fit, **options)


def scout_and_measure(
    objective: Objective,
    batches: Sequence[Batch],
    kernel: Kernel,
    settings: ScoutingSettings | None = None,
    progress: Progress = lambda *_: None,
) -> tuple[KlTable, Anchors]:
    """Everything that runs the language model: the table of measured KL and its anchors."""
    settings = settings or ScoutingSettings()
    anchors, table = scout_anchors(objective, batches, kernel, settings, progress)
    ranges = settings.table_ranges()
    budgets = spread_budgets(len(batches) * settings.draws * len(ranges), ranges).view(len(batches), -1)
    done = len(settings.batches_by_look(batches)[-1])  # the last look has measured the anchors on these batches
    if done >= len(batches):
        return table, anchors
    samples = len(table) // len(ranges)
    rest = measure_table(
        objective, batches[done:], kernel, anchors, budgets[done:], first_sample=samples, progress=progress
    )
    return stack_tables([table, rest]), anchors


def fit_predictor(
    objective: Objective,
    kernel: Kernel,
    table: KlTable,
    anchors: Anchors,
    *,
    fit: FitSettings | None = None,
    **options: Any,
) -> TableResult:
    """A predictor fitted to a table; the language model does not run."""
    fit = fit or FitSettings()

    def new_predictor(num_anchors: int, **more: Any) -> Predictor:
        made = Predictor.for_model(
            objective.model, kernel, objective.scorer, cost=objective.cost, anchors=num_anchors, **more
        )
        made.to(objective.model.device)
        return made

    if fit.method == "network":
        predictor = new_predictor(len(anchors), **{"dropout": 0.1, **options})
        held_out = fit_network(predictor, table, anchors, fit)
        return TableResult(predictor, table, anchors, held_out)
    memory = fit_memory(table)
    columns = [column for choice in memory.choices for column in choice.columns]
    bandwidth = torch.tensor([choice.bandwidth for choice in memory.choices for _ in choice.columns])
    predictor = new_predictor(len(columns), **{**options, "memory": len(memory.observation)})
    kept = anchors.take(columns)
    predictor.anchors.copy_(kept.params)
    predictor.budget_range.copy_(kept.budget_range)
    if predictor.memory is not None:
        predictor.memory.fit(memory.observation, memory.kl[:, columns], bandwidth)
    rows = table.kl[:, columns].isfinite().any(-1).nonzero()[:, 0]
    used = replace(table.take(rows), kl=table.kl[rows][:, columns])
    return TableResult(predictor.eval(), used, kept, memory.held_out)
