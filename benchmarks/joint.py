"""Does a search over chains and schedules together beat the search over one scorer's schedules, and at what price?

    python benchmarks/joint.py [--only joint,single] [--models tiny-qwen] [--samples 128] [--test 64] [--seeds 3]

Parts, for each model: `joint` (the default search, for each seed, and how much of the gap to the best configuration of each
input it closes), `single` (the predictor search of fastv, sparsevlm and fitprune), `servable` (one step before layer 0), `tpe`
and `rival` (see `joint_rivals.py`). All of them learn from the same calibration items and are judged on the same test items,
which no search has seen. `seconds`: the command `vispco search tiny-qwen` by the clock, to be run on a quiet machine.
Each part leaves a file in the cache, and one that is there already is not run again: after a kill, run the same command.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import torch

from figures import Figure, write
from joint_rivals import LOW, Bill, Points, in_order_of, rival_figures, rival_parts, volume
from vispco import Pruner, load
from vispco.core.runs.files import write_json
from vispco.cost import BudgetWarning, Workload
from vispco.data import dataset
from vispco.evaluation.evaluator import TaskEvaluator
from vispco.pruner.configurations import level_of, nearest_level, text_floor
from vispco.pruner.joint_planner import JointPlanner
from vispco.search.calibration_batches import CalibrationBatches
from vispco.search.joint.chain_objectives import ChainObjectives
from vispco.search.modes import SearchRun, run_mode
from vispco.search.search_spec import BUDGETS, SearchSpec

MODELS = ("tiny-qwen", "tiny-llava", "tiny-gemma")
SINGLE = ("fastv", "sparsevlm", "fitprune")
LOWEST = (0.1, 0.14)  # what only some chains can reach; a search with one bill for all budgets is not asked for them
MEANS = ("mean:0.18,max:0.5", "mean:0.2,max:0.5", "mean:0.25,max:0.5")
GAPS = (0.3, 0.4, 0.5)
RATIOS = 20  # of the single-layer grid
COMMAND = "tiny-qwen"  # the model on which the whole command is timed
BARS: dict[str, tuple[Literal["higher", "lower"], float | None, str]] = {
    "hypervolume_vs_best_single_scorer": ("higher", 1.06, "ratio"),
    "hypervolume_from_18_vs_best_single_scorer": ("higher", None, "ratio"),
    "accuracy_at_25": ("higher", 0.86, "fraction"),
    "accuracy_at_25_hard": ("higher", None, "fraction"),
    "accuracy_at_18": ("higher", 0.78, "fraction"),
    "accuracy_at_18_hard": ("higher", None, "fraction"),
    "points_of_mean_budget.20": ("higher", None, "points"),
    "cost_vs_grid": ("lower", 0.1, "ratio"),
}
"""Of the means over seeds that each model has: which way is better, the bar, the unit."""


class Ground:
    """One model, what searches learn from and what they are judged on."""

    def __init__(self, name: str, given: argparse.Namespace) -> None:
        self.name = name
        self.model, self.processor = load(name)
        self.calibration = list(dataset("calibration", limit=given.samples))
        self.test = list(dataset("test", limit=given.test))
        self.judge = TaskEvaluator(self.model, self.processor, self.test, batch_size=64)

    def run(self, spec: SearchSpec) -> tuple[SearchRun, Any, dict[str, float]]:
        """Search; -> the run, what it found, and the seconds: of the clock, and of the processor (one thread)."""
        samples = in_order_of(self.calibration, spec.seed)
        began = time.perf_counter(), time.process_time()
        run = SearchRun.prepare(self.model, self.processor, samples, spec)
        outcome = run_mode(run)
        return run, outcome, {"clock": time.perf_counter() - began[0], "processor": time.process_time() - began[1]}

    def points(self, planners: dict[str, Any], chain: Any = None) -> dict[str, dict[str, float]]:
        """Accuracy and mean share of the FLOPs of each planner."""
        found = {}
        for budget, planner in planners.items():
            pruner = Pruner(getattr(planner, "chain", None) or chain, planner)
            result = self.judge(pruner)
            spent = result.details["spending"]["exact"]
            found[budget] = {"fraction": spent["mean"], "p95": spent["p95"], "worst": spent["worst"]}
            found[budget] |= {"accuracy": result.accuracy, "low": result.low, "high": result.high}
        return found


def joint(ground: Ground, seed: int, *, servable: bool = False) -> dict[str, Any]:
    """The default search with one seed: hard budgets, and budgets that are a mean."""
    run, outcome, seconds = ground.run(SearchSpec.of_chains(servable=servable, seed=seed))
    asked = [*map(str, (*LOWEST, *LOW, *BUDGETS)), *(() if servable else MEANS)]
    points = ground.points({budget: JointPlanner(outcome.predictor, budget) for budget in asked})
    found = {"points": points, "seconds": seconds, "spent": run.objective.spent.to_dict(), "grid": grid_cost(run)}
    return found if servable else {**found, "gap": gap(ground, run, outcome), "over": violations(ground, outcome)}


def single(ground: Ground, scorer: str) -> dict[str, Any]:
    """The predictor search of one scorer, as it was before the joint search."""
    spec = SearchSpec.of(scorer, mode="predictor")
    run, outcome, seconds = ground.run(spec)
    planners = {str(budget): outcome.planner(run, budget) for budget in (*LOWEST, *LOW, *BUDGETS)}
    spent = run.objective.spent.to_dict()
    return {"points": ground.points(planners, run.spec.chain), "seconds": seconds, "spent": spent}


def grid_cost(run: SearchRun) -> float:
    """FLOPs of the single-layer grid on as many samples: every layer but the first, at evenly spaced ratios."""
    cost, total = run.objective.cost, 0.0
    ratios = torch.arange(1, RATIOS + 1, dtype=torch.float64) / RATIOS
    for batch in run.batches:
        size = Workload(batch.num_text + batch.num_answer, batch.num_visual)
        for layer in range(1, cost.num_layers):
            curve = torch.ones(RATIOS, cost.num_layers, dtype=torch.float64)
            curve[:, layer:] = ratios[:, None]
            counts = (curve[:, None] * batch.num_visual[None, :, None]).round().long()
            total += float(cost.price(counts.flatten(0, 1), size.repeat(RATIOS)).sum())
    return total


def gap(ground: Ground, run: SearchRun, outcome: Any) -> dict[str, dict[str, float]]:
    """KL on test items of one configuration for all, of the predictor's choice, and of each input's best; as in `search.py`.

    At the level that serves a budget for a sample of the median size. The one for all is the best on the calibration items of
    all that the predictor knows there. Each input's best is among those between which the predictor chooses; where it has
    one only, among all that it knows, and nothing is closed. `static_in_hindsight`: the best for all on the test items.
    """
    batches = CalibrationBatches(ground.model, ground.processor, ground.test, batch_size=32)
    every, predictor = outcome.predictor.configurations, outcome.predictor
    candidates, planner = ChainObjectives(run.objective, every.chains), JointPlanner(predictor, 0.5)
    middle = predictor.sizes.median(0).values
    floor = text_floor(middle[:1], middle[1:2], planner.cost)
    found = {}
    for budget in GAPS:
        level = float(nearest_level(level_of(budget, floor), every.levels)[0])
        places = (predictor.level == level).nonzero()[:, 0]
        kept = planner.usable()[places]
        kl, chosen = [], []
        for batch in batches:
            kl.append(candidates.measure(batch, every.take(places), level).T)
            chosen.append(predictor.estimate(batch.observation)[:, places].argmin(-1))
        table, choice = torch.cat(kl), torch.cat(chosen)
        best = int(predictor.memory.kl[:, places].mean(0).argmin())  # on the calibration items
        static, taken = float(table[:, best].mean()), float(table.gather(1, choice[:, None]).mean())
        found[str(budget)] = {"static": static, "predictor": taken, "kept": int(kept.sum()), "known": len(places)}
        for name, columns in (
            ("", kept if int(kept.sum()) > 1 else torch.ones_like(kept)),
            ("_of_all", torch.ones_like(kept)),
        ):
            oracle = float(table[:, columns].min(-1).values.mean())
            closed = (static - taken) / (static - oracle) if static > oracle else 0.0
            found[str(budget)] |= {f"oracle{name}": oracle, f"closed{name}": closed}
        found[str(budget)]["static_in_hindsight"] = float(table.mean(0).min())
    return found


def violations(ground: Ground, outcome: Any) -> int:
    """Test samples over a hard budget or over the cap of a mean."""
    batches = CalibrationBatches(ground.model, ground.processor, ground.test, batch_size=64)
    over = 0
    for asked in (*LOWEST, *LOW, *BUDGETS, *MEANS):
        planner = JointPlanner(outcome.predictor, asked)
        limit = planner.budget.cap or planner.budget.amount
        for batch in batches:
            plan = planner.plan(batch.observation, planner.choose(batch.observation))
            for row, group in enumerate(plan.groups or (0,) * len(batch)):
                first = planner.chains[planner.used[group]].earliest_layer
                size = Workload(batch.num_text[row], batch.num_visual[row], "entry", first)
                spent = float(planner.cost.price(plan.counts[row], size)) / float(planner.cost.full(size))
                over += spent > max(limit, float(planner.cost.lowest_fraction(size))) + 1e-9
    return over


def seconds() -> dict[str, Any]:
    """The whole command with its defaults, in a process of its own that may use all cores."""
    own = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "vispco", "search", COMMAND, "--out", f"{folder}/run"]
        began = time.perf_counter()
        subprocess.run(command, env=own, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return {"seconds": time.perf_counter() - began}


def parts_of(
    model: str, ground: Callable[[], Ground], seeds: int, bill: Bill
) -> dict[str, Callable[[], dict[str, Any]]]:
    """All parts of one model by name. bill: of the joint search with a seed, which its rivals get."""
    found: dict[str, Callable[[], dict[str, Any]]] = {"seconds": seconds} if model == COMMAND else {}
    for seed in range(seeds):
        found[f"joint-{seed}"] = lambda seed=seed: joint(ground(), seed)
    for scorer in SINGLE:
        found[f"single-{scorer}"] = lambda scorer=scorer: single(ground(), scorer)
    found["servable-0"] = lambda: joint(ground(), 0, servable=True)
    return found | rival_parts(ground, seeds, bill)


def figures_of(found: dict[str, dict[str, Any]]) -> dict[str, Figure]:
    """The figures of the models whose parts have all run."""
    made: dict[str, Figure] = rival_figures(found)
    seeds = by_seed(found)
    means = {name: {model: statistics.mean(values) for model, values in each.items()} for name, each in seeds.items()}
    for model, parts in found.items():
        made |= {
            f"{name}.{model}": Figure(means[name][model], *BARS[name]) for name in BARS if model in means.get(name, {})
        }
        if "servable-0" in parts and model in means.get("hypervolume", {}):
            ratio = volume(parts["servable-0"]["points"]) / means["hypervolume"][model]
            made[f"servable_vs_full.{model}"] = Figure(ratio, "higher", None, "ratio")
    every = [part for parts in found.values() for name, part in parts.items() if name.startswith("joint-")]
    if not every:
        return made
    for name, bar, unit in (
        ("hypervolume_vs_best_single_scorer", 1.08, "ratio"),
        ("points_of_mean_budget.20", 2.0, "points"),
    ):
        if len(means.get(name, {})) == len(MODELS):
            made[name] = Figure(statistics.mean(means[name].values()), "higher", bar, unit)
    if "seconds" in found.get(COMMAND, {}):
        made["seconds"] = Figure(found[COMMAND]["seconds"]["seconds"], "lower", 240, "seconds")
    errors = [abs(p["points"][m]["fraction"] - float(m[5:].split(",")[0])) for p in every for m in MEANS]
    made["mean_budget_error"] = Figure(max(errors), "lower", 0.01, "fraction")
    made["budget_violations"] = Figure(sum(p["over"] for p in every), "lower", 0, "samples")
    for budget, bar in zip(GAPS, (0.5, 0.7, 0.7), strict=True):
        name = f"gap_closed.{round(100 * budget)}"
        made[name] = Figure(
            statistics.mean(value for each in seeds[name].values() for value in each), "higher", bar, "share"
        )
    return made


def by_seed(found: dict[str, dict[str, Any]]) -> dict[str, dict[str, list[float]]]:
    """What is averaged over seeds: figure -> model -> a value for each seed."""
    values: dict[str, dict[str, list[float]]] = {}
    for model, parts in found.items():
        singles = [parts[f"single-{scorer}"]["points"] for scorer in SINGLE if f"single-{scorer}" in parts]
        for part in (part for name, part in parts.items() if name.startswith("joint-")):
            for figure, value in _figures_of_run(part, singles if len(singles) == len(SINGLE) else []).items():
                values.setdefault(figure, {}).setdefault(model, []).append(value)
    return values


def _figures_of_run(part: dict[str, Any], singles: list[Points]) -> dict[str, float]:
    """The figures of one seed. singles: the points of all searches of one scorer, or none."""
    points = part["points"]
    accuracy = {budget: point["accuracy"] for budget, point in points.items()}
    made = {"hypervolume": volume(points)}
    if singles:
        for name, lowest in (("hypervolume", 0.0), ("hypervolume_from_18", LOW[0])):
            best = max(volume(single, lowest) for single in singles)
            made[f"{name}_vs_best_single_scorer"] = volume(points, lowest) / best
    for share in (25, 18):
        made[f"accuracy_at_{share}"] = accuracy[f"mean:{share / 100:g},max:0.5"]
        made[f"accuracy_at_{share}_hard"] = accuracy[f"{share / 100:g}"]
    made["points_of_mean_budget.20"] = 100 * (accuracy["mean:0.2,max:0.5"] - accuracy["0.2"])
    made["cost_vs_grid"] = part["spent"]["total"] / part["grid"]
    return made | {f"gap_closed.{round(100 * budget)}": part["gap"][str(budget)]["closed"] for budget in GAPS}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--only", default="", help="kinds of parts, or single ones: single,rival-scaled,joint-0")
    parser.add_argument("--samples", type=int, default=128, help="calibration items of each task")
    parser.add_argument("--test", type=int, default=64, help="test items of each task")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--cache", type=Path, default=Path("runs/bench-joint"))
    parser.add_argument("--into", type=Path, default=None, help="another folder for the result")
    given = parser.parse_args()
    warnings.simplefilter("ignore", BudgetWarning)
    settings = {"samples": given.samples, "test": given.test}
    only = [name for name in given.only.split(",") if name]
    found: dict[str, dict[str, Any]] = {}
    for model in given.models.split(","):
        kept: list[Ground] = []

        def ground(model: str = model, kept: list[Ground] = kept) -> Ground:
            kept[:] = kept or [Ground(model, given)]
            return kept[0]

        def bill(seed: int, model: str = model) -> float | None:
            return found.get(model, {}).get(f"joint-{seed}", {}).get("spent", {}).get("total")

        for name, part in parts_of(model, ground, given.seeds, bill).items():
            file = given.cache / model / f"{name}.json"
            known = json.loads(file.read_text()) if file.is_file() else {}
            if known.get("settings") == settings:
                found.setdefault(model, {})[name] = known["found"]
            elif not only or not {name, name.partition("-")[0]}.isdisjoint(only):
                print(f"{time.strftime('%H:%M:%S')} {model} {name}", flush=True)
                result = part()
                file.parent.mkdir(parents=True, exist_ok=True)
                write_json(file, {"settings": settings, "found": result})
                found.setdefault(model, {})[name] = result
    options = {} if given.into is None else {"into": given.into}
    write(
        "joint", figures_of(found), {"settings": settings, "by_seed": by_seed(found), "parts": found}, seed=0, **options
    )


if __name__ == "__main__":
    main()
