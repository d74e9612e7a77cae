"""`search`: from a model, samples and budgets to a frontier, and a directory that can be deployed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from accelerate import PartialState

from vispco import kernels
from vispco.errors import InvalidInputError
from vispco.evaluation.evaluator import TaskEvaluator
from vispco.frontier import Frontier
from vispco.kernels import Kernel
from vispco.planning import run_files as disk
from vispco.provenance import machine, versions
from vispco.scorers import Chain, ChainLike
from vispco.search import presets
from vispco.search.calibration import CalibrationBatches
from vispco.search.evaluate import evaluate_planners
from vispco.search.gradient.relaxation import GaussianMask
from vispco.search.journal import SearchJournal
from vispco.search.modes import Effort, Mode, choose_solver, run_mode
from vispco.search.objective import Objective
from vispco.search.presets import Preset
from vispco.version import __version__
from vispco.weight_bars import hide_weight_bars

if TYPE_CHECKING:
    from vispco.data.sample import Sample

TYPICAL = 8  # batches whose median size is the typical one
BUDGETS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


def search(
    model: Any,
    processor: Any,
    samples: Sequence[Sample],
    *,
    scorer: ChainLike = "fastv",
    kernel: str | Kernel = "steps",
    mode: Mode = "predictor",
    solver: str | None = None,
    budgets: Sequence[float] = BUDGETS,
    directory: str | Path | None = None,
    test: Sequence[Sample] | None = None,
    cost: str = "exact",
    preset: str | Preset | None = None,
    effort: Effort | None = None,
    seed: int = 0,
    facts: Mapping[str, Any] | None = None,
    show: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> Frontier:
    """Search schedules that meet each budget, evaluate them, and keep all of it in `directory`.

    samples: the calibration set that is searched on. test: what the frontier's accuracies are measured on; default: the
    calibration set itself, which flatters. solver: 'projection' or 'lagrangian', for a predictor also 'table';
    default: 'projection' for a static search, 'table' for a predictor (docs/search.md says why). preset: by name;
    default: the paper's row for this model and kernel. seed: of everything that is drawn. facts: more for config.json,
    such as the command that was given.
    Deploy with `vispco.Pruner.from_pretrained(directory, budget=...)`, or `vispco.planning.deployment`.
    """
    way = choose_solver(mode, solver)
    if not budgets or not all(0.0 < b <= 1.0 for b in budgets):
        raise InvalidInputError(
            f"budgets={list(budgets)} was given. Give fractions of the unpruned FLOPs, above 0, up to 1."
        )
    began = time.perf_counter()
    effort, rated = _seeded(effort or Effort(), seed), Chain.of(scorer)
    torch.manual_seed(seed)
    shape = kernels.get(kernel, earliest_layer=rated.earliest_layer) if isinstance(kernel, str) else kernel
    row = presets.get(preset) if isinstance(preset, str) else preset or presets.for_model(model.config, shape.name)
    even = way == "projection"  # ours; the Lagrangian keeps the paper's gradient
    objective = Objective(model, rated, cost=cost, relaxation=GaussianMask(row.sigma, row.temperature, even=even))
    folder = None if directory is None else Path(directory)
    writes = folder is not None and PartialState().is_main_process  # of many processes, one
    if folder is not None and writes:
        objective.journal = SearchJournal(folder)

    say(f"vision tower and teacher: {len(samples)} samples, once each")
    batches = CalibrationBatches(model, processor, samples, batch_size=effort.batch_size, on_new=objective.add_teacher)
    outcome = run_mode(
        objective,
        batches,
        shape,
        budgets,
        mode=mode,
        solver=way,
        preset=row,
        effort=effort,
        cost=objective.cost,
        folder=folder,
        show=show,
        say=say,
    )
    if folder is not None and writes:
        disk.write_config(
            folder,
            {
                "vispco": __version__,
                "model": str(getattr(model.config, "name_or_path", "")) or type(model).__name__,
                "versions": versions(),
                "machine": machine(model.device),
                **(facts or {}),
                "seed": seed,
                "mode": mode,
                "solver": way,
                "scorer": rated.to_dict(),
                "kernel": shape.config(),
                "cost": objective.cost.to_dict(),
                "budgets": list(budgets),
                "preset": row.to_dict(),
                "samples": len(samples),
                "typical": [
                    int(torch.cat([getattr(b, size) for b in batches[:TYPICAL]]).median())
                    for size in ("num_text", "num_visual")
                ],
                "spent": objective.spent.to_dict(),
                "search_seconds": time.perf_counter() - began,
            },
        )
        disk.write_shapes(folder, outcome.found)
        disk.write_metrics(folder, outcome.records)
        if outcome.predictor is not None:
            with hide_weight_bars():
                outcome.predictor.save_pretrained(folder / disk.PREDICTOR)
    planners = {budget: outcome.planner(objective, shape, budget) for budget in budgets}
    judged = samples if test is None else test
    frontier = evaluate_planners(
        model,
        processor,
        judged,
        rated,
        planners,
        provenance={"mode": mode, "solver": way, "kernel": shape.name},
        evaluator=TaskEvaluator(model, processor, judged, rated, batch_size=effort.batch_size),
        say=say,
    )
    if folder is not None and writes:
        frontier.save(folder / disk.FRONTIER)
    if objective.journal is not None:
        objective.journal.close()
    return frontier


def _seeded(effort: Effort, seed: int) -> Effort:
    """The same effort with another seed, where one was given."""
    if seed == 0:
        return effort
    training = None if effort.training is None else replace(effort.training, seed=seed)
    return replace(effort, fit=replace(effort.fit, seed=seed), training=training)
