"""The parts of `search.py`: each takes the lab and the cache folder and gives plain data for one JSON file."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from search_lab import BUDGETS, SCORERS, Judged, Lab, kl_and_match, over_budget
from vispco import kernels
from vispco.cost import Workload, counts_for_budget, schedule_for_budget, snap
from vispco.data import dataset
from vispco.kernels import KERNELS
from vispco.pruner.budget_planner import deployed_gamma
from vispco.pruner.configurations import level_of, nearest_level
from vispco.pruner.joint_planner import JointPlanner
from vispco.pruner.predictor import Predictor
from vispco.search import presets
from vispco.search.batch import Batch
from vispco.search.calibration_batches import CalibrationBatches
from vispco.search.gradient.static import DescentSettings
from vispco.search.gradient.trainer import PredictorTrainer
from vispco.search.gradient.training_settings import TrainingSettings
from vispco.search.initial_shapes import initial_shapes
from vispco.search.joint.joint_settings import ONE_CHAIN, JointSettings
from vispco.search.joint.joint_table import measure_joint_table
from vispco.search.joint.predictor_fit import fit_joint_predictor
from vispco.search.modes import SearchRun, run_mode
from vispco.search.objective import Objective
from vispco.search.search_spec import Effort, SearchSpec
from vispco.search.shape_pool import counts_at_budget, median_size
from vispco.sweep.spaces import SingleSpace
from vispco.sweep.spaces import get as get_space

RANDOM = 160
SEARCHED = 8  # batches of 16 samples that a static search sees
TWO = {"steps": 2}


def unpruned(lab: Lab, _: Path) -> dict[str, Any]:
    whole = lab.tried(lab.test, torch.ones(1, lab.L), lab.judge)[0]
    return {"accuracy": float(whole[1]), "samples_per_task": lab.sizes}


def table(lab: Lab, cache: Path, settings: JointSettings = ONE_CHAIN) -> dict[str, Any]:
    """The predictor of one chain's shapes, for all budgets at once; its seconds have the teacher's passes too."""
    kernel, objective, kept = kernels.get("steps", **TWO), lab.objective("steps"), cache / "measured.pt"
    if not kept.is_file():
        started = time.perf_counter()
        samples = dataset("calibration", limit=lab.sizes["calibration"])
        batches = CalibrationBatches(
            lab.model, lab.processor, samples, batch_size=lab.batch, on_new=objective.add_teacher
        )
        measured = measure_joint_table(objective, batches, (objective.scorer,), settings, kernel=kernel)
        spent = objective.spent
        torch.save((measured, spent.total, spent.total_shared, time.perf_counter() - started), kept)
    measured, flops, shared, seconds = torch.load(kept, weights_only=False)
    started = time.perf_counter()
    predictor, held_out = fit_joint_predictor(objective, measured)
    seconds += time.perf_counter() - started
    planners = {budget: JointPlanner(predictor, budget) for budget in BUDGETS}
    params = measured.configurations.params

    def chosen(batch: Batch, budget: float) -> torch.Tensor:
        return params[torch.from_numpy(planners[budget].choose(batch.observation).anchor)]

    found = lab.judged(kernel, chosen)
    found.flops, found.shared, found.seconds = flops, shared, seconds
    static = {b: measured.found(b) for b in BUDGETS}
    found.calibration_kl = {f"{b:g}": static[b].kl for b in BUDGETS}
    best = lab.judged(kernel, lambda batch, budget: static[budget].params.expand(len(batch), -1))
    described = [kernel.describe(row, lab.L) for row in params]
    fitted = {f"{level:g}": vars(kl) for level, kl in held_out.items()}
    return {**found.to_dict(), "fitted": fitted, "anchors": described, "best_static": best.to_dict()}


def one_search(lab: Lab, cache: Path) -> dict[str, Any]:
    """One search of one scorer as a user starts it: the command with its defaults, all budgets, two threads."""
    out = cache / "one-search"
    shutil.rmtree(out, ignore_errors=True)
    command = [sys.executable, "-m", "vispco", "search", lab.name, "--scorer", lab.scorer, "--out", str(out)]
    started = time.perf_counter()
    subprocess.run(command, check=True, env={**os.environ, "OMP_NUM_THREADS": "2"}, capture_output=True)
    seconds = time.perf_counter() - started
    config = json.loads((out / "config.json").read_text())
    return {
        "seconds": seconds,
        "threads": 2,
        **{key: config[key] for key in ("mode", "solver", "samples", "search_seconds")},
    }


def gap(lab: Lab, cache: Path) -> dict[str, Any]:
    """Best single configuration (on the calibration table), predictor, per-sample oracle over the same ones."""
    measured = torch.load(cache / "measured.pt", weights_only=False)[0]
    predictor, _ = fit_joint_predictor(lab.objective("steps"), measured)
    told: dict[str, Any] = {}
    batches = lab.by_size("test", 128)
    for budget in BUDGETS:
        every = measured.configurations
        level = float(nearest_level(level_of(budget, measured.typical_floor[None]), every.levels)[0])
        columns = ((every.level == level) & predictor.kept.cpu()).nonzero()[:, 0]
        anchors, static = every.params[columns], measured.found(budget)
        place = int((anchors - static.params).abs().sum(-1).argmin())
        sums = torch.zeros(3, 2)
        for batch in batches:
            kl, right = kl_and_match(
                lab.judge, batch, counts_at_budget(lab.judge, batch.sizes, measured.kernel, anchors, budget)
            )
            picked = predictor.estimate(batch.observation)[:, columns].argmin(-1)
            for row, choice in enumerate((torch.full_like(picked, place), picked, kl.argmin(0))):
                sums[row, 0] += right.float().gather(0, choice[None]).sum()
                sums[row, 1] += kl.gather(0, choice[None]).sum()
        (a_static, k_static), (a_own, k_own), (a_best, k_best) = (sums / sum(map(len, batches))).tolist()
        told[f"{budget:g}"] = {
            "samples": sum(map(len, batches)),
            "static": a_static, "predictor": a_own, "oracle": a_best,
            "static_kl": k_static, "predictor_kl": k_own, "oracle_kl": k_best,
            "anchors": len(anchors),
            "closed": (a_own - a_static) / (a_best - a_static) if a_best > a_static else None,
            "closed_kl": (k_static - k_own) / max(k_static - k_best, 1e-9),
        }  # fmt: skip
        print("   ", told[f"{budget:g}"], flush=True)
    return told


def grid(lab: Lab, _: Path) -> dict[str, Any]:
    """The paper's protocol scaled to L: all configurations on the calibration set; winners go to the test set."""
    space = SingleSpace(lab.L)
    rows = torch.stack([space.schedule(params).tensor() for params in space.grid()])
    batches, objective = lab.by_size("calibration", lab.sizes["calibration"]), lab.objective()
    started = time.perf_counter()
    chosen_on = lab.tried(batches, rows, objective)
    told: dict[str, Any] = {"configurations": len(rows), "calibration": chosen_on.round(5).tolist()}
    unpruned_once = sum(objective.full_flops(batch) for batch in batches)  # where shared layers come from
    for column, name in ((1, "accuracy"), (2, "kl")):
        sign = 1 if name == "accuracy" else -1
        picks = {}
        for budget in BUDGETS:
            fits = np.flatnonzero(chosen_on[:, 0] <= budget)
            if len(fits):
                picks[f"{budget:g}"] = int(fits[(sign * chosen_on[fits, column]).argmax()])
        distinct = sorted(set(picks.values()))
        tested = lab.tried(lab.test, rows[distinct], lab.judge)
        found = Judged({b: tested[distinct.index(i)].tolist() for b, i in picks.items()})
        found.flops, found.shared = objective.spent.total, objective.spent.total_shared + unpruned_once
        found.seconds = time.perf_counter() - started
        told[name] = found.to_dict()
    return told


def flattered(lab: Lab, _: Path) -> dict[str, Any]:
    """The paper's protocol as it is: the grid's winners are chosen on the very set that they are judged on."""
    space = SingleSpace(lab.L)
    rows = torch.stack([space.schedule(params).tensor() for params in space.grid()])
    tested, found = lab.tried(lab.test, rows, lab.judge), Judged()
    for budget in BUDGETS:
        fits = np.flatnonzero(tested[:, 0] <= budget)
        if len(fits):
            found.points[f"{budget:g}"] = tested[fits[tested[fits, 1].argmax()]].tolist()
    return found.to_dict()


@dataclass(frozen=True)
class StaticPlan:
    """What a search of one schedule for each budget may do. Budgets between its own take the nearest shape.

    monotone: a shape of a smaller budget is taken where it has less KL on the calibration samples: with more money it
    cannot get worse by much, and a solver that is stopped early leaves such shapes.
    """

    monotone: bool = False
    seen: int = SEARCHED  # batches of calibration samples
    budgets: tuple[float, ...] = BUDGETS
    descent: DescentSettings = field(default_factory=DescentSettings)


def searched(lab: Lab, kernel_name: str, mode: str, solver: str, plan: StaticPlan | None = None) -> dict[str, Any]:
    """A static or line search at every budget."""
    plan = plan or StaticPlan()
    batches = lab.calibration[: plan.seen]
    spec = SearchSpec.of(
        lab.scorer, kernel_name, mode=mode, solver=solver, budgets=plan.budgets, effort=Effort(descent=plan.descent)
    ).for_model(lab.model.config)
    kernel, objective = spec.kernel, lab.objective(kernel_name, teacher=batches, even=solver == "projection")
    started = time.perf_counter()
    outcome = run_mode(SearchRun(spec, objective, batches, say=lambda line: print("   ", line, flush=True)))
    seconds = time.perf_counter() - started
    nearest = {budget: min(outcome.found, key=lambda each: abs(each.budget - budget)) for budget in BUDGETS}
    if plan.monotone:
        nearest = {
            budget: min((each for each in outcome.found if each.budget <= own.budget), key=lambda each: each.kl)
            for budget, own in nearest.items()
        }
    found = lab.judged(kernel, lambda batch, budget: nearest[budget].params.expand(len(batch), -1))
    _bill(found, objective, seconds)
    found.calibration_kl = {f"{each.budget:g}": each.kl for each in outcome.found}
    described = {f"{each.budget:g}": kernel.describe(each.params, lab.L) for each in outcome.found}
    size = objective.workload(median_size(batches))
    curves = {
        f"{each.budget:g}": schedule_for_budget(
            kernel, each.params, each.budget, size, objective.cost, gamma=deployed_gamma(kernel), fill=False
        )
        .tensor()
        .tolist()
        for each in outcome.found
    }
    history = {f"{each.budget:g}": each.history for each in outcome.found}
    return {**found.to_dict(), "shapes": described, "curves": curves, "history": history}


def trained(lab: Lab, cache: Path, kernel_name: str, solver: str) -> dict[str, Any]:
    """The paper's way to a predictor: a gradient through the relaxed model, for as many FLOPs as the table took."""
    objective = lab.objective(kernel_name, teacher=lab.calibration, even=solver == "projection")
    row = presets.for_model(lab.model.config, kernel_name)
    torch.manual_seed(0)
    predictor = Predictor.for_model(lab.model, kernels.get(kernel_name), objective.scorer)
    one = 3 * objective.spent.teacher / len(lab.calibration)  # forward and backward of a batch, masked: all tokens
    steps = max(10, round((_flops(cache) - objective.spent.teacher) / one))
    plan = TrainingSettings(steps=steps, rate=10 * row.rate, inner=10)
    started = time.perf_counter()
    PredictorTrainer(objective, predictor, lab.calibration, solver=solver, plan=plan, settings=row.lagrangian()).run()
    seconds = time.perf_counter() - started
    found = lab.judged(predictor.kernel, lambda batch, budget: _asked(predictor, batch, budget))
    _bill(found, objective, seconds)
    return {**found.to_dict(), "steps": steps}


def tpe(lab: Lab, cache: Path, seen: int = SEARCHED // 2) -> dict[str, Any]:
    """Optuna's TPE over the same kernel and calibration KL, with the table's FLOPs shared out over the budgets."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    kernel, best, trials = kernels.get("steps", **TWO), {}, {}
    pool = initial_shapes(kernel, lab.L)
    low, high = pool.min(0).values, pool.max(0).values
    batches, total, started = lab.calibration[:seen], 0.0, time.perf_counter()
    for budget in BUDGETS:
        objective = lab.objective("steps")
        study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=0))
        while objective.spent.total < _flops(cache) / len(BUDGETS):
            trial = study.ask()
            raw = [trial.suggest_float(str(i), float(low[i]), float(high[i]) + 1e-6) for i in range(len(low))]
            params = torch.tensor([raw], dtype=torch.float64)
            kl = [
                objective.measure_kl(b, counts_at_budget(objective, b.sizes, kernel, params, budget)) for b in batches
            ]
            study.tell(trial, float(torch.cat(kl, dim=-1).mean()))
        best[budget] = torch.tensor([study.best_params[str(i)] for i in range(len(low))], dtype=torch.float64)
        trials[f"{budget:g}"] = len(study.trials)
        total += objective.spent.total
        print(f"    budget {budget:g}: {len(study.trials)} trials, KL {study.best_value:.4g}", flush=True)
    found = lab.judged(kernel, lambda batch, budget: best[budget].expand(len(batch), -1))
    found.flops, found.seconds = total, time.perf_counter() - started
    return {**found.to_dict(), "trials": trials, "samples_per_trial": sum(map(len, batches))}


def at_random(lab: Lab, _: Path, budget: float = 0.5) -> dict[str, Any]:
    """Truly random non-increasing schedules, moved to the budget, on the test set."""
    space, rng = get_space("free", lab.L), np.random.default_rng(0)
    curves = torch.stack([space.schedule(space.draw(rng)).tensor() for _ in range(RANDOM)])

    def counts_of(batch: Batch) -> torch.Tensor:
        B = len(batch)
        workload = Workload(batch.num_text, batch.num_visual).repeat(RANDOM)
        goal = torch.full((RANDOM * B,), budget, dtype=torch.float64)
        rows = snap(curves.repeat_interleave(B, dim=0), goal, workload, lab.judge.cost, fill=False)
        return rows.view(RANDOM, B, -1)

    accuracy = lab.over(lab.test, lab.judge, counts_of)[:, 1]
    return {"mean": accuracy.mean(), "best": accuracy.max(), "worst": accuracy.min(), "schedules": RANDOM}


def violations(lab: Lab, _: Path) -> dict[str, Any]:
    """Samples over budget, as deployed: all test samples, budgets, kernels (random parameters) and scorers."""
    torch.manual_seed(0)
    count = checked = 0
    for name in KERNELS:
        kernel = kernels.get(name)
        for scorer in SCORERS:
            objective = Objective(lab.model, scorer)
            for batch in lab.test:
                params = 3 * torch.randn(len(batch), kernel.num_parameters(lab.L), dtype=torch.float64)
                for budget in BUDGETS:
                    counts = counts_for_budget(
                        kernel,
                        params,
                        torch.full((len(batch),), budget, dtype=torch.float64),
                        objective.workload(batch.sizes),
                        objective.cost,
                        gamma=deployed_gamma(kernel),
                    )
                    count += over_budget(objective, counts, batch, budget)
                    checked += len(batch)
    return {"violations": count, "checked": checked}


def _asked(predictor: Predictor, batch: Batch, budget: float) -> torch.Tensor:
    with torch.no_grad():
        params: torch.Tensor = predictor(batch.observation, torch.full((len(batch),), budget))
    return params


def _bill(found: Judged, objective: Objective, seconds: float) -> None:
    found.flops, found.shared, found.seconds = objective.spent.total, objective.spent.total_shared, seconds


def _flops(cache: Path) -> float:
    return float(json.loads((cache / "table.json").read_text())["found"]["flops"])
