"""The ways to search, each on a `SearchRun`: static (Algorithm 1, projection or halving), line, and predictor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from vispco.core.progress_lines import ProgressBar
from vispco.evaluation.features import FeatureStore
from vispco.pruner.budget_planner import BudgetPlanner, PredictedShape, static_shape
from vispco.pruner.joint_planner import JointPlanner
from vispco.pruner.predictor import Predictor
from vispco.pruner.search_files import FoundShape
from vispco.search.batch import Batch
from vispco.search.bill import free_memory, sample_bytes
from vispco.search.calibration_batches import CalibrationBatches, batch_lengths
from vispco.search.gradient.static import static_search
from vispco.search.gradient.trainer import PredictorTrainer
from vispco.search.gradient.training_settings import TrainingSettings
from vispco.search.joint.joint_table import measure_joint_table
from vispco.search.joint.predictor_fit import fit_joint_predictor
from vispco.search.objective import Objective
from vispco.search.search_journal import SearchJournal, work_key
from vispco.search.search_spec import SearchSpec
from vispco.search.shape_pool import measure_shapes, sample_floors
from vispco.search.successive_halving import line_search, shape_search

if TYPE_CHECKING:
    from vispco.core.runs.run_folder import RunFolder
    from vispco.data.sample import Sample


@dataclass(frozen=True, eq=False)
class SearchRun:
    """A search that is under way: what it looks for, and what it works with.

    folder: where a gradient training keeps its state; None for nowhere. show: draw progress bars. say: called with a line for each result.
    """

    spec: SearchSpec
    objective: Objective
    batches: Sequence[Batch]
    folder: Path | None = None
    show: bool = False
    say: Callable[[str], None] = lambda _: None

    @classmethod
    def prepare(
        cls,
        model: Any,
        processor: Any,
        samples: Sequence[Sample],
        spec: SearchSpec,
        *,
        store: FeatureStore | None = None,
        memory: int | None = None,
        journal: SearchJournal | None = None,
        batches: CalibrationBatches | None = None,
        **options: Any,
    ) -> SearchRun:
        """A search on a model and samples, with its preset chosen and its seed set.

        store: visual features that are known already. memory: bytes for batches, what unpruned layers compute, features and the
        teacher's answers; default: half of what the device has free. Batches are as small as that takes. journal: what was measured before a stop. batches: those of an earlier
        search of the same samples, whose teacher need not run again; it is on this bill all the same. options: of this class.
        """
        spec = spec.for_model(model.config)
        torch.manual_seed(spec.seed)
        objective = Objective(model, spec.chain, cost=spec.cost, relaxation=spec.relaxation())
        objective.journal = journal
        memory = free_memory(model.device) // 2 if memory is None else memory
        objective.memory = memory // 4
        store = batches.store if batches is not None else store or FeatureStore(model, processor, memory=memory // 8)
        for chain in (spec.chain, *spec.chains):  # the store keeps what any candidate reads of the vision tower
            store.require(chain.needs_vision)
        if batches is not None:
            for batch in batches:
                objective.add_teacher(batch)
            return cls(spec, objective, batches, **options)
        encoded = store.encode(samples[:1], answers=True)
        size = sample_bytes(objective.cost.dimensions, encoded.length, sum(encoded.answer_lengths))
        batches = CalibrationBatches(
            model,
            processor,
            samples,
            batch_size=max(1, min(spec.effort.batch_size, memory // 4 // size)),
            memory=memory // 8,
            store=store,
            on_new=objective.add_teacher,
            by_area=bool(spec.chains),
        )
        return cls(spec, objective, batches, **options)


@dataclass(frozen=True, eq=False)
class SearchResult:
    """Shapes by budget, the predictor where one was trained, and records for metrics.jsonl."""

    found: list[FoundShape]
    predictor: Predictor | None = None
    records: list[dict[str, Any]] = field(default_factory=list)

    def facts(self) -> dict[str, Any]:
        """More for config.json."""
        return {}

    def save_parts(self, folder: RunFolder) -> None:
        """Write what has folders of its own."""

    def planner(self, run: SearchRun, budget: float) -> BudgetPlanner:
        """What is deployed for a budget."""
        if self.predictor is not None:
            shape: Any = PredictedShape(self.predictor, budget)
        else:
            shape = static_shape(min(self.found, key=lambda each: abs(each.budget - budget)).params)
        cost = run.objective.cost
        return BudgetPlanner(shape, run.spec.kernel, budget, cost, chain=run.spec.chain)


@dataclass(frozen=True, eq=False)
class JointResult(SearchResult):
    """What a joint search found: a predictor that gives each sample a configuration, a chain and a shape."""

    def planner(self, run: SearchRun, budget: float) -> JointPlanner:  # type: ignore[override]  # noqa: ARG002
        """What is deployed for a budget."""
        return JointPlanner(self.predictor, budget)  # type: ignore[arg-type]


def run_mode(run: SearchRun) -> SearchResult:
    """Search in the mode and with the solver of the run's spec."""
    spec = run.spec
    if spec.solver == "table":
        return _joint(run)
    if spec.mode == "predictor":
        return _gradient(run)
    found = []
    for budget in spec.budgets:
        if spec.mode == "line":
            each = line_search(run.objective, run.batches, spec.kernel, budget)
        else:
            each = _static(run, budget)
        run.say(f"budget {budget:g}: KL {each.kl:.4g}")
        found.append(each)
    records = [{"budget": each.budget, "kl": each.kl, "converged": each.converged} for each in found]
    return SearchResult(found, records=records)


def _static(run: SearchRun, budget: float) -> FoundShape:
    """One budget; if the objective's journal has it, with its bill, from there."""
    spec, objective, name = run.spec, run.objective, ""
    journal = objective.journal
    if journal is not None:
        settings = [spec.kernel.config(), budget, spec.solver, asdict(spec.row), asdict(spec.effort.descent)]
        name = work_key(settings, spec.chain.to_dict(), *(batch.name for batch in run.batches))
        if name in journal:
            objective.spent.add(journal[name]["spent"])
            return FoundShape.from_dict(journal[name]["found"])
    before = objective.spent.to_dict()
    if spec.solver == "halving":
        found = shape_search(objective, run.batches, spec.kernel, budget, explore=spec.effort.descent.explore)
    else:
        found = static_search(
            objective,
            run.batches,
            spec.kernel,
            budget,
            solver=spec.solver,  # type: ignore[arg-type]  # checked by choose_solver
            settings=spec.row.lagrangian(),
            descent=spec.effort.descent,
        )
    if journal is not None:
        bill = replace(objective.spent)
        bill.add(before, sign=-1)
        journal.add(name, {"found": found.to_dict(), "spent": bill.to_dict()})
    return found


def _joint(run: SearchRun) -> JointResult:
    """Chains and shapes together, for all budgets at once; with one chain, its shapes alone."""
    spec = run.spec
    chains, effort = spec.chains or (spec.chain,), spec.effort
    settings = effort.joint if spec.mode == "joint" else effort.one_chain
    settings = replace(settings, servable=spec.servable, seed=spec.seed)
    floor = float(np.median(sample_floors(run.batches[:8], run.objective.cost)))
    total = settings.expected_passes(len(chains), sum(batch_lengths(run.batches)), spec.budgets, floor)
    with ProgressBar(total=total, show=run.show) as bar:
        table = measure_joint_table(
            run.objective, run.batches, chains, settings, bar.advance, spec.kernel, spec.budgets
        )
    predictor, held_out = fit_joint_predictor(run.objective, table)
    records: list[dict[str, Any]] = []
    for level, kl in held_out.items():
        near, best = table.budget(level), table.best(level).name
        run.say(
            f"budgets near {near:.0%}: {best}, KL {kl.static:.3g} with one configuration, {kl.predictor:.3g} by input"
        )
        records.append({"budget": near, **asdict(kl), "ranking": table.ranking.get(level)})
    return JointResult([table.found(budget) for budget in spec.budgets], predictor, records)


def _gradient(run: SearchRun) -> SearchResult:
    spec, effort, objective, batches = run.spec, run.spec.effort, run.objective, run.batches
    predictor = Predictor.for_model(objective.model, spec.kernel, spec.chain, cost=objective.cost, **effort.predictor)
    predictor.to(objective.model.device)
    plan = effort.training
    if plan is None:
        plan = TrainingSettings.of_passes(len(batches), spec.row.rate, seed=spec.seed)
    elif spec.seed:  # 0 leaves the training's own seed
        plan = replace(plan, seed=spec.seed)
    trainer = PredictorTrainer(
        objective,
        predictor,
        batches,
        solver=spec.solver,  # type: ignore[arg-type]  # checked by choose_solver
        plan=plan,
        settings=spec.row.lagrangian(),
        directory=None if run.folder is None else run.folder / "training",
    )
    records = [dict(record) for record in trainer.run(show=run.show)]
    trained = trainer.accelerator.unwrap_model(trainer.module)
    found = []
    with torch.no_grad():
        for budget in spec.budgets:  # for `export`: the mean of the predicted parameters, its KL on the first batch
            params = [trained(b.observation, torch.full((len(b),), budget)) for b in batches[:8]]
            mean = torch.cat(params).mean(0).double()
            kl = measure_shapes(objective, batches[0], spec.kernel, mean[None], budget).mean()
            found.append(FoundShape(budget, mean, float(kl)))
    return SearchResult(found, trained, records)
