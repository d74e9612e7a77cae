"""Does the search find what exhaustive search finds, for a tenth of its price, and what do per-input schedules add?

    python benchmarks/search.py [--model tiny-qwen] [--calibration 128] [--test 128]

Every method sees the same calibration set and is judged on the same test set, by the answers that greedy decoding writes
to the letter (teacher-forced). FLOPs are the language model's; a search's bill has its teacher and backward passes.
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch

from figures import Figure, write
from vispco import kernels
from vispco.cost import BudgetWarning, snap
from vispco.data import dataset
from vispco.frontier.measures import hypervolume
from vispco.kernels import KERNELS
from vispco.loading import load
from vispco.schedule import whole_tokens
from vispco.search import presets
from vispco.search.batch import Batch
from vispco.search.halving import counts_at
from vispco.search.modes import Effort, carry_out
from vispco.search.objective import Objective
from vispco.search.predictor import Predictor
from vispco.search.prepared import Prepared
from vispco.search.relaxation import GaussianMask
from vispco.search.shapes import shapes
from vispco.search.static import Descent, static_search
from vispco.search.teach import Lesson, Taught, teach
from vispco.search.trainer import Trainer
from vispco.search.training_plan import TrainingPlan
from vispco.sweep.spaces import Free, Single

BUDGETS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
PAPER = ("single", "p-sigmoid", "linear", "exponential", "multi-step")
RANDOM = 160


@dataclass
class Judged:
    """Points on the test set: budget -> (fraction of FLOPs, accuracy, KL); and what finding them cost."""

    points: dict[float, tuple[float, float, float]] = field(default_factory=dict)
    flops: float = 0.0
    seconds: float = 0.0
    violations: int = 0

    @property
    def volume(self) -> float:
        values = np.array([(cost, accuracy) for cost, accuracy, _ in self.points.values()])
        return hypervolume(values, (1.0, 0.0))


class Lab:
    """One model, a calibration set that is searched on, and a test set that judges."""

    def __init__(self, name: str, scorer: str, calibration: int, test: int, batch_size: int = 16) -> None:
        self.model, self.processor = load(name, dtype=torch.float32)
        self.scorer = scorer
        self.calibration, self.test = (
            list(Prepared(self.model, self.processor, dataset(split, limit=limit), batch_size=batch_size))
            for split, limit in (("calibration", calibration), ("test", test))
        )
        self.judge = self.objective()
        self.L = self.judge.cost.num_layers
        self.full = self.tried(self.test, torch.ones(1, self.L))[0]

    def objective(self, kernel: str = "single", *, teacher: bool = False) -> Objective:
        row = presets.for_model(self.model.config, kernel)
        made = Objective(self.model, self.scorer, relaxation=GaussianMask(row.sigma, row.temperature))
        for batch in self.calibration if teacher else ():
            made.learned(batch)
        return made

    def tried(self, batches: list[Batch], retention: torch.Tensor, objective: Objective | None = None) -> np.ndarray:
        """Fixed retentions [C, L] -> (fraction, accuracy, KL) of each over all samples: [C, 3]."""
        judge = objective or self.judge
        return self._over(
            batches,
            judge,
            lambda b: torch.stack([whole_tokens(row.expand(len(b), -1), b.num_visual) for row in retention.double()]),
        )

    def _over(self, batches: list[Batch], judge: Objective, counts_of: Any) -> np.ndarray:
        rows = []
        for batch in batches:
            counts = counts_of(batch)
            kl, right = judge.judged(batch, counts)
            spent = judge.cost.flops_of_counts(counts, batch.num_text, site=judge.scorer.site).double()
            rows.append(torch.stack([spent / judge.cost.full(batch.num_text, batch.num_visual), right, kl]))
        return torch.cat(rows, dim=-1).mean(-1).T.numpy()

    def judged(self, kernel: Any, params_of: Any) -> Judged:
        """`params_of(batch, budget)` -> [P] or [B, P]; judged on the test set, budget by budget."""
        found = Judged()
        for budget in BUDGETS:

            def counts_of(batch: Batch, budget: float = budget) -> torch.Tensor:
                params = params_of(batch, budget).double()
                counts = counts_at(self.judge, batch, kernel, params[None], budget)
                found.violations += self.over_budget(counts[0], batch, budget)
                return counts

            found.points[budget] = tuple(self._over(self.test, self.judge, counts_of)[0].tolist())
        return found

    def over_budget(self, counts: torch.Tensor, batch: Batch, budget: float, site: str = "entry") -> int:
        """How many samples spend more than their budget (or than their floor, where that is higher)."""
        cost = self.judge.cost
        full = cost.full(batch.num_text, batch.num_visual).double()
        floor = cost.floor(batch.num_text, batch.num_visual, site=site).double() / full
        spent = cost.flops_of_counts(counts, batch.num_text, site=site).double() / full
        return int((spent > floor.clamp_min(budget)).sum())


def grid(lab: Lab) -> tuple[Judged, Judged]:
    """The paper's protocol scaled to L: winners chosen on the calibration set, and (flattered) on the test set itself."""
    space = Single(lab.L)
    rows = torch.stack([space.schedule(params).tensor() for params in space.grid()])
    objective, started = lab.objective(), time.perf_counter()
    chosen_on = lab.tried(lab.calibration, rows, objective)
    seconds, tested = time.perf_counter() - started, lab.tried(lab.test, rows)
    honest = Judged(flops=objective.spent.total, seconds=seconds)
    flattered = Judged(flops=objective.spent.total, seconds=seconds)
    for budget in BUDGETS:
        for found, table in ((honest, chosen_on), (flattered, tested)):
            fits = np.flatnonzero(table[:, 0] <= budget)
            if len(fits):
                found.points[budget] = tuple(tested[fits[table[fits, 1].argmax()]].tolist())
    return honest, flattered


def searched(lab: Lab, kernel_name: str, mode: str, solver: str, effort: Effort) -> Judged:
    """A static or line search at every budget."""
    kernel, objective = kernels.get(kernel_name), lab.objective(kernel_name, teacher=True)
    started = time.perf_counter()
    outcome = carry_out(
        objective,
        lab.calibration[:8],
        kernel,
        BUDGETS,
        mode=mode,
        solver=solver,
        preset=presets.for_model(lab.model.config, kernel_name),
        effort=effort,
    )
    seconds = time.perf_counter() - started
    shapes_of = {each.budget: each.params for each in outcome.found}
    found = lab.judged(kernel, lambda batch, budget: shapes_of[budget].expand(len(batch), -1))
    found.flops, found.seconds = objective.spent.total, seconds
    return found


def taught(lab: Lab, lesson: Lesson) -> tuple[Judged, Taught]:
    """The predictor that learns from a table, for all budgets at once."""
    kernel, objective = kernels.get("steps", steps=2), lab.objective("steps", teacher=True)
    started = time.perf_counter()
    result = teach(objective, lab.calibration, kernel, lesson=lesson)
    seconds = time.perf_counter() - started

    def params_of(batch: Batch, budget: float) -> torch.Tensor:
        with torch.no_grad():
            return result.predictor(batch.observation, torch.full((len(batch),), budget)).params

    found = lab.judged(kernel, params_of)
    found.flops, found.seconds = objective.spent.total, seconds
    return found, result


def trained(lab: Lab, kernel_name: str, solver: str, flops: float, start: Any = None) -> Judged:
    """The paper's way to a predictor: a gradient through the relaxed model, for as many FLOPs as another way took."""
    objective = lab.objective(kernel_name, teacher=True)
    predictor = start or Predictor.for_model(lab.model, kernels.get(kernel_name), objective.scorer)
    row = presets.for_model(lab.model.config, kernel_name)
    one = 3 * objective.spent.teacher / len(lab.calibration)  # forward and backward of a batch, masked: all tokens
    steps = max(10, round((flops - objective.spent.teacher) / one))
    plan = TrainingPlan(steps=steps, rate=row.rate if start is not None else 10 * row.rate, inner=10)
    started = time.perf_counter()
    trainer = Trainer(objective, predictor, lab.calibration, solver=solver, plan=plan, settings=row.lagrangian())
    trainer.run()
    seconds = time.perf_counter() - started

    def params_of(batch: Batch, budget: float) -> torch.Tensor:
        with torch.no_grad():
            return predictor(batch.observation, torch.full((len(batch),), budget)).params

    found = lab.judged(predictor.kernel, params_of)
    found.flops, found.seconds = objective.spent.total, seconds
    return found


def converged(names: list[str]) -> dict[str, bool]:
    """Model / scorer / kernel -> did Algorithm 1 with the paper's row meet a budget of 0.5?"""
    told = {}
    for name in names:
        model, processor = load(name, dtype=torch.float32)
        batches = list(Prepared(model, processor, dataset("calibration", limit=1), batch_size=8))
        for scorer in ("fastv", "sparsevlm", "fitprune"):
            for kernel in KERNELS:
                row = presets.for_model(model.config, kernel)
                objective = Objective(model, scorer, relaxation=GaussianMask(row.sigma, row.temperature))
                found = static_search(
                    objective,
                    batches,
                    kernels.get(kernel),
                    0.5,
                    solver="lagrangian",
                    settings=row.lagrangian(),
                    descent=Descent(starts=1, outer=12, explore=8),
                )
                told[f"{name}/{scorer}/{kernel}"] = found.converged
    return told


def gap(lab: Lab, result: Taught, budget: float) -> dict[str, float]:
    """Best static anchor (chosen on the calibration table), predictor and per-sample oracle over the same anchors."""
    kernel, static = kernels.get("steps", steps=2), result.best_static(budget)
    place = int((result.anchors - static.params).abs().sum(-1).argmin())
    sums = torch.zeros(3, 2)
    for batch in lab.test:
        kl, right = lab.judge.judged(batch, counts_at(lab.judge, batch, kernel, result.anchors, budget))
        with torch.no_grad():
            picked = result.predictor(batch.observation, torch.full((len(batch),), budget)).logits.argmax(-1)
        for row, choice in enumerate((torch.full_like(picked, place), picked, kl.argmin(0))):
            sums[row, 0] += right.float().gather(0, choice[None]).sum()
            sums[row, 1] += kl.gather(0, choice[None]).sum()
    (a_static, k_static), (a_own, k_own), (a_best, k_best) = (sums / sum(map(len, lab.test))).tolist()
    return {
        "static": a_static, "predictor": a_own, "oracle": a_best,
        "static_kl": k_static, "predictor_kl": k_own, "oracle_kl": k_best,
        "closed": (a_own - a_static) / max(a_best - a_static, 1e-9),
        "closed_kl": (k_static - k_own) / max(k_static - k_best, 1e-9),
    }  # fmt: skip


def at_random(lab: Lab, budget: float, seed: int = 0) -> np.ndarray:
    """Truly random non-increasing schedules, moved to the budget: (fraction, accuracy, KL) on the test set, [160, 3]."""
    space, rng = Free(lab.L), np.random.default_rng(seed)
    curves = torch.stack([space.schedule(space.draw(rng)).tensor() for _ in range(RANDOM)])

    def counts_of(batch: Batch) -> torch.Tensor:
        B = len(batch)
        text, visual = batch.num_text.repeat(RANDOM), batch.num_visual.repeat(RANDOM)
        goal = torch.full((RANDOM * B,), budget, dtype=torch.float64)
        rows = snap(curves.repeat_interleave(B, dim=0), goal, text, visual, lab.judge.cost, fill=False)
        return rows.view(RANDOM, B, -1)

    return lab._over(lab.test[:32], lab.judge, counts_of)  # noqa: SLF001


def tpe(lab: Lab, flops: float, seed: int = 0) -> Judged:
    """Optuna's TPE over the same kernel and calibration KL, with the same FLOPs at each budget."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    kernel, best = kernels.get("steps", steps=2), {}
    pool = shapes(kernel, lab.L)
    low, high = pool.min(0).values, pool.max(0).values
    total = 0.0
    for budget in BUDGETS:
        objective = lab.objective("steps")
        study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))
        while objective.spent.total < flops / len(BUDGETS):
            trial = study.ask()
            raw = [trial.suggest_float(str(i), float(low[i]), float(high[i]) + 1e-6) for i in range(len(low))]
            params = torch.tensor([raw], dtype=torch.float64)
            kl = [objective.measured(b, counts_at(objective, b, kernel, params, budget)) for b in lab.calibration[:8]]
            study.tell(trial, float(torch.cat(kl, dim=-1).mean()))
        best[budget] = torch.tensor([study.best_params[str(i)] for i in range(len(low))], dtype=torch.float64)
        total += objective.spent.total
    found = lab.judged(kernel, lambda batch, budget: best[budget].expand(len(batch), -1))
    found.flops = total
    return found


def violations(lab: Lab) -> int:
    """Samples over budget, over all test samples, budgets, kernels (random parameters) and places where tokens leave."""
    torch.manual_seed(0)
    count = 0
    for name in KERNELS:
        kernel = kernels.get(name)
        for scorer in ("fastv", "sparsevlm", "fitprune"):
            objective = Objective(lab.model, scorer)
            for batch in lab.test:
                params = torch.randn(1, len(batch), kernel.num_parameters(lab.L), dtype=torch.float64) * 3
                for budget in BUDGETS:
                    counts = counts_at(objective, batch, kernel, params, budget)[0]
                    count += lab.over_budget(counts, batch, budget, objective.scorer.site)
    return count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="tiny-qwen")
    parser.add_argument("--scorer", default="fastv")
    parser.add_argument("--calibration", type=int, default=128, help="samples per task")
    parser.add_argument("--test", type=int, default=128, help="samples per task")
    parser.add_argument("--convergence", default="tiny-qwen,tiny-llava,tiny-gemma", help="models, or nothing")
    given = parser.parse_args()
    warnings.simplefilter("ignore", BudgetWarning)  # 0.2 lies under the floor of small pictures, and is raised to it
    lab, effort = Lab(given.model, given.scorer, given.calibration, given.test), Effort()
    print(f"{given.model}: unpruned {lab.full[1]:.3f}")
    found: dict[str, Judged] = {}

    def tell(name: str) -> None:
        points = " ".join(f"{b:g}:{a:.3f}" for b, (_, a, _) in found[name].points.items())
        print(
            f"{name:24} volume {found[name].volume:.4f} flops {found[name].flops:.3g} s {found[name].seconds:.0f} | {points}"
        )

    found["predictor/table"], result = taught(lab, Lesson())
    tell("predictor/table")
    gaps = {budget: gap(lab, result, budget) for budget in (0.3, 0.4, 0.5)}
    for kernel, solver, start in (
        ("single", "lagrangian", None),
        ("steps", "projection", None),
        ("steps", "projection", result.predictor),
    ):
        name = f"predictor/{'table+' if start is not None else ''}{solver}/{kernel}"
        found[name] = trained(lab, kernel, solver, found["predictor/table"].flops, start)
        tell(name)
    for name, mode, solver in (
        ("single", "line", "line"),
        ("multi-step", "line", "line"),
        ("steps", "static", "projection"),
        ("free", "static", "projection"),
        *((kernel, "static", "lagrangian") for kernel in PAPER),
    ):
        found[f"{mode}/{solver}/{name}"] = searched(lab, name, mode, solver, effort)
        tell(f"{mode}/{solver}/{name}")
    found["grid"], found["grid/flattered"] = grid(lab)
    found["tpe"] = tpe(lab, found["predictor/table"].flops)
    for name in ("grid", "grid/flattered", "tpe"):
        tell(name)
    random = at_random(lab, 0.5)
    best = found["predictor/table"]
    whole = found["grid"].volume
    paper = max((found[f"static/lagrangian/{kernel}"] for kernel in PAPER), key=lambda each: each.volume)
    figures = {
        "hypervolume_vs_grid.paper": Figure(paper.volume / whole, "higher", 0.99, "ratio"),
        "hypervolume_vs_grid.best": Figure(max(f.volume for n, f in found.items() if "grid" not in n and n != "tpe") / whole, "higher", 1.0, "ratio"),
        "cost_vs_grid": Figure(best.flops / found["grid"].flops, "lower", 0.1, "ratio"),
        "points_over_random_mean_at_50": Figure(100 * (best.points[0.5][1] - random[:, 1].mean()), "higher", 8, "points"),
        "points_over_random_best_at_50": Figure(100 * (best.points[0.5][1] - random[:, 1].max()), "higher", 0, "points"),
        "hypervolume_vs_tpe": Figure(best.volume / found["tpe"].volume, "higher", 1.0, "ratio"),
        **{f"gap_closed.{round(100 * b)}": Figure(gaps[b]["closed"], "higher", 0.3, "ratio") for b in gaps},
        "budget_violations": Figure(violations(lab) + sum(f.violations for f in found.values()), "lower", 0, "samples"),
        "seconds": Figure(best.seconds, "lower", 180, "seconds"),
    }  # fmt: skip
    meets = converged([name for name in given.convergence.split(",") if name])
    if meets:
        figures["converged"] = Figure(sum(meets.values()) / len(meets), "higher", 1.0, "share")
    details = {
        "not_converged": [name for name, good in meets.items() if not good],
        "model": given.model, "scorer": given.scorer, "unpruned": float(lab.full[1]), "gaps": gaps,
        "samples": {"calibration": sum(map(len, lab.calibration)), "test": sum(map(len, lab.test))},
        "random_at_50": {"mean": random[:, 1].mean(), "best": random[:, 1].max(), "worst": random[:, 1].min()},
        "methods": {name: {**asdict(each), "volume": each.volume} for name, each in found.items()},
    }  # fmt: skip
    write("search", figures, details, seed=0)


if __name__ == "__main__":
    main()
