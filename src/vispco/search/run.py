"""`search`: from a model, samples and budgets to a frontier, and a directory that can be deployed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from accelerate import PartialState

from vispco.cost import Cost
from vispco.evaluation.evaluator import TaskEvaluator
from vispco.frontier import Frontier
from vispco.kernels import Kernel
from vispco.planning import run_files as disk
from vispco.provenance import machine, versions
from vispco.scorers import ChainLike
from vispco.search.evaluate import evaluate_planners
from vispco.search.journal import SearchJournal
from vispco.search.modes import SearchRun, run_mode
from vispco.search.presets import SearchPreset
from vispco.search.spec import BUDGETS, Effort, Mode, SearchSpec
from vispco.version import __version__
from vispco.weight_bars import hide_weight_bars

if TYPE_CHECKING:
    from vispco.data.sample import Sample

TYPICAL = 8  # batches whose median size is the typical one


def search(
    model: Any,
    processor: Any,
    samples: Sequence[Sample],
    *,
    spec: SearchSpec | None = None,
    scorer: ChainLike = "fastv",
    kernel: str | Kernel = "steps",
    mode: Mode = "predictor",
    solver: str | None = None,
    budgets: Sequence[float] = BUDGETS,
    directory: str | Path | None = None,
    test: Sequence[Sample] | None = None,
    cost: str | Cost = "exact",
    preset: str | SearchPreset | None = None,
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
    default: the paper's row for this model and kernel. seed: of everything that is drawn. spec: all of these at once (scorer
    to seed), in place of them. facts: more for config.json, such as the command that was given.
    Deploy with `vispco.Pruner.from_pretrained(directory, budget=...)`, or `vispco.planning.deployment`.
    """
    began = time.perf_counter()
    spec = spec or SearchSpec.of(
        scorer,
        kernel,
        mode=mode,
        solver=solver,
        budgets=tuple(budgets),
        cost=cost,
        preset=preset,
        effort=effort,
        seed=seed,
    )
    folder = None if directory is None else Path(directory)
    writes = folder is not None and PartialState().is_main_process  # of many processes, one
    journal = SearchJournal(folder) if folder is not None and writes else None
    say(f"vision tower and teacher: {len(samples)} samples, once each")
    run = SearchRun.prepare(model, processor, samples, spec, journal=journal, folder=folder, show=show, say=say)
    outcome = run_mode(run)
    spec, objective = run.spec, run.objective
    if folder is not None and writes:
        disk.write_config(
            folder,
            {
                "vispco": __version__,
                "model": str(getattr(model.config, "name_or_path", "")) or type(model).__name__,
                "versions": versions(),
                "machine": machine(model.device),
                **(facts or {}),
                **{name: value for name, value in spec.to_dict().items() if name != "effort"},
                "cost": objective.cost.to_dict(),
                "samples": len(samples),
                "typical": [
                    int(torch.cat([getattr(b, size) for b in run.batches[:TYPICAL]]).median())
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
    planners = {budget: outcome.planner(run, budget) for budget in spec.budgets}
    judged = samples if test is None else test
    frontier = evaluate_planners(
        model,
        processor,
        judged,
        spec.chain,
        planners,
        provenance={"mode": spec.mode, "solver": spec.solver, "kernel": spec.kernel.name},
        evaluator=TaskEvaluator(model, processor, judged, spec.chain, batch_size=spec.effort.batch_size),
        say=say,
    )
    if folder is not None and writes:
        frontier.save(folder / disk.FRONTIER)
    if journal is not None:
        journal.close()
    return frontier
