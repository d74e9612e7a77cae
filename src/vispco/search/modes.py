"""The ways to search, behind one signature: static (Algorithm 1 or projection), line, and predictor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import torch

from vispco.cost import Cost
from vispco.errors import InvalidInputError
from vispco.kernels import Kernel
from vispco.planning.found_shape import FoundShape
from vispco.planning.planner import BudgetPlanner, predicted_shape, static_shape
from vispco.planning.predictor import Predictor
from vispco.search.batch import Batch
from vispco.search.gradient.static import DescentSettings, static_search
from vispco.search.gradient.trainer import PredictorTrainer
from vispco.search.gradient.training_settings import TrainingSettings
from vispco.search.journal import work_key
from vispco.search.objective import Objective
from vispco.search.presets import Preset
from vispco.search.progress import ProgressBar
from vispco.search.shapes.halving import line_search, measure_shapes
from vispco.search.table.network_fit import FitSettings
from vispco.search.table.scouting import ScoutingSettings
from vispco.search.table.table_predictor import train_on_table

Mode = Literal["static", "predictor", "line"]
# The first is the default.
SOLVERS = {
    "static": ("projection", "lagrangian"),
    "predictor": ("table", "projection", "lagrangian"),
    "line": ("line",),
}
PASSES = 4  # over the samples, where a training's length is not given


@dataclass(frozen=True)
class Effort:
    """How much a search may do, by part; the defaults suit a small model and some hundred samples."""

    batch_size: int = 16  # the paper's
    descent: DescentSettings = field(default_factory=DescentSettings)
    scouting: ScoutingSettings = field(default_factory=ScoutingSettings)
    fit: FitSettings = field(default_factory=FitSettings)
    training: TrainingSettings | None = None  # None: the preset's rate, PASSES over the samples
    predictor: dict[str, Any] = field(default_factory=dict)  # options of its config


@dataclass(frozen=True, eq=False)
class SearchResult:
    """Shapes by budget, the predictor where one was trained, and records for metrics.jsonl."""

    found: list[FoundShape]
    predictor: Predictor | None = None
    records: list[dict[str, Any]] = field(default_factory=list)

    def planner(self, objective: Objective, kernel: Kernel, budget: float) -> BudgetPlanner:
        """What is deployed for a budget."""
        if self.predictor is not None:
            shape = predicted_shape(self.predictor, budget)
        else:
            shape = static_shape(min(self.found, key=lambda each: abs(each.budget - budget)).params)
        return BudgetPlanner(
            shape, kernel, budget, objective.cost, site=objective.scorer.sites(objective.cost.num_layers)
        )


def choose_solver(mode: str, solver: str | None) -> str:
    """The solver of a mode, its default if none is given; an error lists what there is."""
    if mode not in SOLVERS:
        raise InvalidInputError(f"mode={mode!r} was given. It is one of {', '.join(SOLVERS)}.")
    if solver is not None and solver not in SOLVERS[mode]:
        raise InvalidInputError(f"solver={solver!r} was given. Mode {mode!r} has {', '.join(SOLVERS[mode])}.")
    return solver or SOLVERS[mode][0]


def run_mode(
    objective: Objective,
    batches: Sequence[Batch],
    kernel: Kernel,
    budgets: Sequence[float],
    *,
    mode: Mode,
    solver: str,
    preset: Preset,
    effort: Effort,
    cost: str | Cost = "exact",
    folder: Path | None = None,
    show: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> SearchResult:
    """Search in one mode with one solver."""
    if mode == "predictor" and solver == "table":
        return _table(objective, batches, kernel, budgets, effort, cost, say, show=show)
    if mode == "predictor":
        return _gradient(objective, batches, kernel, budgets, solver, preset, effort, cost, folder, show=show)
    found = []
    for budget in budgets:
        if mode == "line":
            each = line_search(objective, batches, kernel, budget)
        else:
            each = _static(objective, batches, kernel, budget, solver, preset, effort)
        say(f"budget {budget:g}: KL {each.kl:.4g}")
        found.append(each)
    records = [{"budget": each.budget, "kl": each.kl, "converged": each.converged} for each in found]
    return SearchResult(found, records=records)


def _static(
    objective: Objective,
    batches: Sequence[Batch],
    kernel: Kernel,
    budget: float,
    solver: str,
    preset: Preset,
    effort: Effort,
) -> FoundShape:
    """One budget; if the objective's journal has it, with its bill, from there."""
    journal, name = objective.journal, ""
    if journal is not None:
        settings = [kernel.config(), budget, solver, preset.to_dict(), asdict(effort.descent)]
        name = work_key(settings, objective.scorer.to_dict(), *(batch.name for batch in batches))
        if name in journal:
            objective.spent.add(journal[name]["spent"])
            return FoundShape.from_dict(journal[name]["found"])
    before = objective.spent.to_dict()
    found = static_search(
        objective,
        batches,
        kernel,
        budget,
        solver=solver,  # type: ignore[arg-type]  # checked by choose_solver
        settings=preset.lagrangian(),
        descent=effort.descent,
    )
    if journal is not None:
        bill = replace(objective.spent)
        bill.add(before, sign=-1)
        journal.add(name, {"found": found.to_dict(), "spent": bill.to_dict()})
    return found


def _table(
    objective: Objective,
    batches: Sequence[Batch],
    kernel: Kernel,
    budgets: Sequence[float],
    effort: Effort,
    cost: str | Cost,
    say: Callable[[str], None],
    *,
    show: bool,
) -> SearchResult:
    with ProgressBar(effort.scouting.num_passes(batches), show=show, share=True) as bar:
        taught = train_on_table(
            objective,
            batches,
            kernel,
            scouting=effort.scouting,
            fit=effort.fit,
            cost=cost,
            progress=bar.advance,
            **effort.predictor,
        )
    fitted = taught.held_out
    say(
        f"KL on held-out rows: one shape {fitted.static:.4g}, predictor {fitted.predictor:.4g}, best {fitted.oracle:.4g}"
    )
    record = {"static": fitted.static, "predictor": fitted.predictor, "oracle": fitted.oracle}
    return SearchResult([taught.best_static(budget) for budget in budgets], taught.predictor, [record])


def _gradient(
    objective: Objective,
    batches: Sequence[Batch],
    kernel: Kernel,
    budgets: Sequence[float],
    solver: str,
    preset: Preset,
    effort: Effort,
    cost: str | Cost,
    folder: Path | None,
    *,
    show: bool,
) -> SearchResult:
    predictor = Predictor.for_model(objective.model, kernel, objective.scorer, cost=cost, **effort.predictor)
    predictor.to(objective.model.device)
    plan = effort.training or TrainingSettings(
        steps=PASSES * len(batches), rate=preset.rate, inner=max(2, len(batches) // 4), seed=effort.fit.seed
    )
    trainer = PredictorTrainer(
        objective,
        predictor,
        batches,
        solver=solver,  # type: ignore[arg-type]  # checked by choose_solver
        plan=plan,
        settings=preset.lagrangian(),
        directory=None if folder is None else folder / "training",
        show=show,
    )
    records: list[dict[str, Any]] = [dict(record) for record in trainer.run()]
    trained = trainer.accelerator.unwrap_model(trainer.predictor)
    return SearchResult(
        [_consensus(objective, trained, batches, kernel, budget) for budget in budgets], trained, records
    )


@torch.no_grad()
def _consensus(
    objective: Objective, predictor: Predictor, batches: Sequence[Batch], kernel: Kernel, budget: float
) -> FoundShape:
    """One shape for all samples, for `export`: the mean of the predicted parameters, with its KL on the first batch."""
    params = [predictor(b.observation, torch.full((len(b),), budget)).params for b in batches[:8]]
    mean = torch.cat(params).mean(0).double()
    return FoundShape(budget, mean, float(measure_shapes(objective, batches[0], kernel, mean[None], budget).mean()))
