"""Searches of `depth.py` that `search.py` does not have: NSGA-II, random shapes, an evolution strategy, and the joint one.

The first three use the shapes of the table predictor (two steps), the same calibration samples, and its bill in FLOPs. The
joint search, which is the default of `vispco search`, chooses among chains of scorers as well.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import torch

from search_lab import BUDGETS, Judged, Lab
from vispco import Pruner, kernels
from vispco.cost import Workload
from vispco.data import dataset
from vispco.evaluation.evaluator import TaskEvaluator
from vispco.pruner.joint_planner import JointPlanner
from vispco.search.batch import Batch
from vispco.search.calibration_batches import CalibrationBatches
from vispco.search.initial_shapes import initial_shapes
from vispco.search.joint.joint_settings import JointSettings
from vispco.search.modes import SearchRun, run_mode
from vispco.search.objective import Objective
from vispco.search.search_spec import Effort, SearchSpec
from vispco.search.shape_pool import counts_at_budget

CHAINS = ("fastv", "divprune", "divprune+fastv", "cdpruner", "cdpruner+fastv")  # of the joint search
BATCHES = 4  # of 8 calibration samples that each trial is measured on
Shape = torch.Tensor  # parameters of the kernel [P]


class Problem:
    """Shapes of two steps: their ranges, and their mean KL on a few calibration samples."""

    def __init__(self, lab: Lab, cache: Path) -> None:
        self.lab, self.kernel = lab, kernels.get("steps", steps=2)
        pool = initial_shapes(self.kernel, lab.L)
        self.low, self.high = pool.min(0).values, pool.max(0).values
        self.batches: list[Batch] = lab.calibration[:BATCHES]
        self.objective: Objective = lab.objective("steps")
        self.bill = float(json.loads((cache / "table.json").read_text())["found"]["flops"])
        self.started = time.perf_counter()

    def kl(self, params: Shape, budget: float) -> float:
        found = [
            self.objective.measure_kl(
                batch, counts_at_budget(self.objective, batch.sizes, self.kernel, params[None], budget)
            )
            for batch in self.batches
        ]
        return float(torch.cat(found, dim=-1).mean())

    def spent(self) -> float:
        return float(self.objective.spent.total)

    def judged(self, best: dict[float, Shape], trials: int) -> dict[str, Any]:
        """What the best shape of each budget does on the test set."""
        seconds = time.perf_counter() - self.started
        found = self.lab.judged(self.kernel, lambda batch, budget: best[budget].expand(len(batch), -1))
        found.flops, found.seconds = self.spent(), seconds
        return {**found.to_dict(), "trials": trials}


def random_n(lab: Lab, cache: Path) -> dict[str, Any]:
    """Random shapes until the bill is spent; each budget keeps the one with the least KL."""
    problem = Problem(lab, cache)
    generator = torch.Generator().manual_seed(0)
    best: dict[float, tuple[float, Shape]] = {}
    trials = 0
    for number, budget in enumerate(BUDGETS):
        while budget not in best or problem.spent() < problem.bill * (number + 1) / len(BUDGETS):
            share = torch.rand(len(problem.low), generator=generator, dtype=torch.float64)
            params = problem.low + share * (problem.high - problem.low)
            kl = problem.kl(params, budget)
            best[budget] = min(best.get(budget, (kl, params)), (kl, params), key=lambda each: each[0])
            trials += 1
    return problem.judged({budget: params for budget, (_, params) in best.items()}, trials)


def nsga2(lab: Lab, cache: Path) -> dict[str, Any]:
    """Optuna's NSGA-II over budget and shape at once, for the two goals of little FLOPs and little KL."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    problem = Problem(lab, cache)
    study = optuna.create_study(
        directions=["minimize", "minimize"], sampler=optuna.samplers.NSGAIISampler(population_size=24, seed=0)
    )
    while problem.spent() < problem.bill:
        trial = study.ask()
        budget = trial.suggest_float("budget", BUDGETS[0], BUDGETS[-1])
        raw = [trial.suggest_float(str(i), float(low), float(high) + 1e-6) for i, (low, high) in _ranges(problem)]
        study.tell(trial, (budget, problem.kl(torch.tensor(raw, dtype=torch.float64), budget)))
    best = {}
    for budget in BUDGETS:
        fits = [trial for trial in study.trials if trial.params["budget"] <= budget + 1e-9]
        fits = fits or [min(study.trials, key=lambda trial: trial.params["budget"])]
        chosen = min(fits, key=lambda trial: trial.values[1])
        best[budget] = torch.tensor([chosen.params[str(i)] for i in range(len(problem.low))], dtype=torch.float64)
    return problem.judged(best, len(study.trials))


def _ranges(problem: Problem) -> Any:
    return enumerate(zip(problem.low.tolist(), problem.high.tolist(), strict=True))


def evolution_strategy(
    lab: Lab, cache: Path, pairs: int = 4, spread: float = 0.15, rate: float = 0.3
) -> dict[str, Any]:
    """A gradient of real dropping: antithetic evolution strategies over the shape, one run for each budget.

    A step draws `pairs` of opposite moves and follows the difference of their KL. It has no relaxation and so no bias
    of one; its noise is what the calibration samples and the few directions leave.
    """
    problem = Problem(lab, cache)
    generator = torch.Generator().manual_seed(0)
    size = problem.high - problem.low
    best, trials = {}, 0
    for number, budget in enumerate(BUDGETS):
        params = (problem.low + problem.high) / 2
        kept = (problem.kl(params, budget), params)
        while problem.spent() < problem.bill * (number + 1) / len(BUDGETS):
            gradient = torch.zeros_like(params)
            for _ in range(pairs):
                move = spread * torch.randn(len(params), generator=generator, dtype=torch.float64)
                up, down = (_inside(problem, params + sign * move * size) for sign in (1, -1))
                difference = problem.kl(up, budget) - problem.kl(down, budget)
                gradient += difference * move
                trials += 2
            params = _inside(problem, params - rate * spread * size * gradient / gradient.norm().clamp_min(1e-12))
            kl = problem.kl(params, budget)
            trials += 1
            kept = min(kept, (kl, params), key=lambda each: each[0])
        best[budget] = kept[1]
    return problem.judged(best, trials)


def joint(lab: Lab, settings: JointSettings | None = None) -> dict[str, Any]:
    """The search over chains and schedules together, with few chains, from as many samples as 2 % of the grid pays for.

    settings: None for the default effort; else the batches are those of the first rung.
    """
    started = time.perf_counter()
    samples = list(dataset("calibration", limit=3 * lab.sizes["calibration"] // 8))
    effort = None if settings is None else Effort(batch_size=settings.rungs[0], joint=settings)
    run = SearchRun.prepare(lab.model, lab.processor, samples, SearchSpec.of_chains(CHAINS, seed=0, effort=effort))
    outcome = run_mode(run)
    seconds = time.perf_counter() - started
    tests = list(dataset("test", limit=lab.sizes["test"]))
    judge = TaskEvaluator(lab.model, lab.processor, tests, batch_size=32)
    found = Judged(flops=float(run.objective.spent.total), seconds=seconds)
    for budget in BUDGETS:
        planner = JointPlanner(outcome.predictor, str(budget))
        result = judge(Pruner(planner.chain, planner))
        spent = result.details["spending"]["exact"]
        found.points[f"{budget:g}"] = [spent["mean"], result.accuracy]
    found.violations = violations(lab, tests, outcome)
    return {**found.to_dict(), "samples": len(samples)}


def violations(lab: Lab, tests: list[Any], outcome: Any) -> int:
    """Test samples over a hard budget."""
    over = 0
    for budget in BUDGETS:
        planner = JointPlanner(outcome.predictor, str(budget))
        for batch in CalibrationBatches(lab.model, lab.processor, tests, batch_size=64):
            plan = planner.plan(batch.observation, planner.choose(batch.observation))
            for row, group in enumerate(plan.groups or (0,) * len(batch)):
                first = planner.chains[planner.used[group]].earliest_layer
                size = Workload(batch.num_text[row], batch.num_visual[row], "entry", first)
                spent = float(planner.cost.price(plan.counts[row], size)) / float(planner.cost.full(size))
                over += spent > max(budget, float(planner.cost.lowest_fraction(size))) + 1e-9
    return over


def _inside(problem: Problem, params: Shape) -> Shape:
    return torch.minimum(torch.maximum(params, problem.low), problem.high)
