"""Is the default search cheap, is no rival ahead of it, and does it keep what it promises? Judged on fresh items.

    python benchmarks/joint.py [--only joint,tpe] [--models tiny-qwen] [--samples 128] [--test 128] [--seeds 3]

Parts, for each model: `joint-SEED` (the default search and its accuracies), of the searches that have run `gap-SEED` (how much of
the reachable gap the predictor closes), `compensation-SEED` (KL with and without), `drift-SEED` (running means of drifted
traffic), `flops-SEED` (FlopCounterMode), and the rivals of `joint_rivals.py`. All searches learn from the same calibration
items, in an order of their own for each seed, and are judged on the same test items in a random order. The test items have a
seed that was drawn once, when the settings were final. Each part leaves a file in the cache, and one that is there already is
not run again: after a kill, run the same command.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from figures import Figure, write
from joint_rivals import HARD, Bill, rival_figures, rival_parts, shuffled
from vispco import Pruner, load
from vispco.core.runs.files import write_json
from vispco.cost import BudgetWarning, Workload
from vispco.cost.formulas import counted_flops
from vispco.data import dataset
from vispco.evaluation.encoded import encode
from vispco.evaluation.evaluator import TaskEvaluator
from vispco.pruner.configurations import level_of, nearest_level, text_floor
from vispco.pruner.joint_planner import JointPlanner
from vispco.pruner.joint_predictor import JointPredictor
from vispco.pruner.kernel_regression import kernel_weights, saturating_loss
from vispco.pruner.mean_budget import WINDOW, MeanController
from vispco.pruner.observation import feature_scales, join_observations, raw_features, scaled_features
from vispco.scorers import Chain
from vispco.search.calibration_batches import CalibrationBatches
from vispco.search.joint.anchor_selection import choose_configurations
from vispco.search.joint.chain_objectives import ChainObjectives
from vispco.search.joint.instruction_groups import group_instructions, leave_one_out_means
from vispco.search.modes import SearchRun, run_mode
from vispco.search.objective import Objective
from vispco.search.search_spec import SearchSpec

FRESH_SEED = 546285330  # drawn once, when the settings were final
MODELS = ("tiny-qwen", "tiny-llava", "tiny-gemma")
MEANS = ("mean:0.18,max:0.5", "mean:0.25,max:0.5")
COMPENSATED = (0.2, 0.25, 0.3, 0.35, 0.5)
GAPS = (0.3, 0.4, 0.5)
STREAM_MEAN = 0.2
STREAM = 512  # inputs of a drifted stream
COUNTED = 8  # items of each budget whose FLOPs are counted
GAP_ITEMS = 256
RATIOS = 20  # of the single-layer grid
BANDWIDTHS = (0.02, 0.05, 0.12, 0.25, 0.6, 1.2)
BARS = {
    "accuracy_at_18": (0.85, 0.90, 0.92),
    "accuracy_at_25": (0.91, 0.92, 0.94),
    "accuracy_at_20_hard": (0.76, 0.885, 0.90),
}
"""Accuracies of the means over seeds, for each model."""


class Setup:
    """One model, what searches learn from and what they are judged on."""

    def __init__(self, name: str, given: argparse.Namespace) -> None:
        self.name, self.folder = name, given.cache / name
        self.model, self.processor = load(name)
        self.calibration = dataset("calibration", limit=given.samples)
        self.test = list(dataset("test", limit=given.test, seed=FRESH_SEED))
        random.Random(FRESH_SEED).shuffle(self.test)
        self.judge = TaskEvaluator(self.model, self.processor, self.test, batch_size=64, scores=True)

    def point(self, name: str, pruner: Pruner) -> dict[str, Any]:
        """Accuracy and mean share of the FLOPs of a pruner, and what it scores on each item, by task; kept under a name."""

        def measure() -> dict[str, Any]:
            result = self.judge(pruner)
            spent = result.details["spending"]["exact"]
            scores = {task: [round(score, 4) for score in own] for task, own in result.details["scores"].items()}
            return {"fraction": spent["mean"], "worst": spent["worst"], "accuracy": result.accuracy, "scores": scores}

        return self.once(f"point-{name}", measure)

    def once(self, name: str, measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """What was measured under a name, now or before a kill."""
        file = self.folder / f"{name}.json"
        if not file.is_file():
            self.folder.mkdir(parents=True, exist_ok=True)
            write_json(file, measure())
        return dict(json.loads(file.read_text()))

    def predictor(self, seed: int) -> JointPredictor:
        """What the search with a seed has found; its part must have run."""
        return JointPredictor.from_pretrained(self.folder / f"predictor-{seed}").eval()

    def batches(self, count: int | None = None) -> CalibrationBatches:
        return CalibrationBatches(self.model, self.processor, self.test[:count], batch_size=32)


def joint(setup: Setup, seed: int) -> dict[str, Any]:
    """The default search with one seed: hard budgets, and budgets that are a mean."""

    def search() -> dict[str, Any]:
        samples = list(shuffled(setup.calibration, seed))
        began = time.process_time()
        run = SearchRun.prepare(setup.model, setup.processor, samples, SearchSpec.of_chains(seed=seed))
        found = run_mode(run)
        seconds = time.process_time() - began
        found.predictor.save_pretrained(setup.folder / f"predictor-{seed}")
        return {
            "processor_seconds": seconds,
            "samples": len(found.predictor.sizes),
            "held_out": found.records,
            "spent": run.objective.spent.to_dict(),
            "grid": grid_cost(run),
        }

    about, points = setup.once(f"search-{seed}", search), {}
    for asked in map(str, (*HARD, *MEANS)):
        planner = JointPlanner(setup.predictor(seed), asked)
        points[asked] = setup.point(f"joint-{seed}-{asked}", Pruner(planner.chain, planner))
    return {**about, "points": points}


def grid_cost(run: SearchRun) -> float:
    """FLOPs of the single-layer grid on all calibration samples: every layer but the first, at evenly spaced ratios."""
    cost, total = run.objective.cost, 0.0
    ratios = torch.arange(1, RATIOS + 1, dtype=torch.float64) / RATIOS
    first = run.batches.rows(range(128))  # type: ignore[attr-defined]  # a window of pictures of all sizes
    size = Workload(first.num_text + first.num_answer, first.num_visual)
    for layer in range(1, cost.num_layers):
        curve = torch.ones(RATIOS, cost.num_layers, dtype=torch.float64)
        curve[:, layer:] = ratios[:, None]
        counts = (curve[:, None] * first.num_visual[None, :, None]).round().long()
        total += float(cost.price(counts.flatten(0, 1), size.repeat(RATIOS)).sum())
    return total / len(first) * len(run.batches.samples)  # type: ignore[attr-defined]


def gap(setup: Setup, seed: int) -> dict[str, dict[str, float]]:
    """Mean KL on test items at each exact budget: of the predictor's choice, and what was reachable.

    static: the best single configuration. reachable: the best fit to what is known before the language model, each item left
    out. oracle: the best choice in hindsight.
    """
    predictor, batches = setup.predictor(seed), setup.batches(GAP_ITEMS)
    every, cost = predictor.configurations, predictor.make_cost()
    candidates = ChainObjectives(Objective(setup.model, every.chains[0]), every.chains)
    middle = predictor.sizes.median(0).values
    floor = text_floor(middle[:1], middle[1:2], cost)
    seen = join_observations([batch.observation for batch in batches])
    raw = raw_features(seen)
    keys, groups = scaled_features(raw, *feature_scales(raw)), group_instructions(seen)
    found = {}
    for budget in GAPS:
        planner = JointPlanner(predictor, budget)
        level = float(nearest_level(level_of(budget, floor), every.levels)[0])
        places = ((predictor.level == level) & torch.isin(predictor.chain, torch.tensor(planner.used))).nonzero()[:, 0]
        kl = torch.cat([candidates.measure(batch, every.take(places), level).T for batch in batches])
        loss = saturating_loss(kl)
        fits = [kernel_weights(keys, keys, bandwidth, leave_one_out=True) @ loss for bandwidth in BANDWIDTHS]
        choices = [choose_configurations(kl, fit) for fit in (*fits, leave_one_out_means(loss, groups))]
        taken = kl.gather(1, predictor.estimate(seen)[:, places].argmin(-1, keepdim=True))[:, 0]
        best = int(predictor.memory.kl[:, places].mean(0).argmin())  # on the calibration items
        static, reachable = float(kl[:, best].mean()), min(float(choice.predictor.mean()) for choice in choices)
        found[str(budget)] = {
            "static": static,
            "taken": float(taken.mean()),
            "reachable": reachable,
            "oracle": float(kl.min(-1).values.mean()),
            "configurations": len(places),
        }
    return found


def compensation(setup: Setup, seed: int) -> dict[str, dict[str, float]]:
    """KL on test items with the compensations that were searched, and with the same configurations without any."""
    judge = TaskEvaluator(setup.model, setup.processor, setup.test[:GAP_ITEMS], batch_size=64)
    plain = setup.predictor(seed)
    plain.config.chains = [Chain.of(chain).with_compensation(0.0).to_dict() for chain in plain.config.chains]
    found = {}
    for budget in COMPENSATED:
        both = [JointPlanner(predictor, budget) for predictor in (setup.predictor(seed), plain)]
        with_, without = (judge.kl(Pruner(planner.chain, planner)) for planner in both)
        found[str(budget)] = {"with": with_, "without": without}
    return found


def drift(setup: Setup, seed: int) -> dict[str, float]:
    """The largest deviation of the mean over 256 inputs from the target, of it, on three streams; after the first 256."""
    predictor, found = setup.predictor(seed), {}
    seen = [(sample.task, row) for sample, row in zip(setup.test, range(len(setup.test)), strict=True)]
    reading = ("word", "chart", "table")
    streams = {
        "counting": [row for task, row in seen if task == "counting"],
        "reading": [row for task, row in seen if task in reading],
        "sorted": [row for _, row in sorted(seen)],
    }
    for name, stream in streams.items():
        planner = JointPlanner(predictor, f"mean:{STREAM_MEAN},max:0.5", MeanController(STREAM_MEAN))
        rows = (stream * -(-STREAM // len(stream)))[: max(STREAM, len(stream))]
        pruner, means = Pruner(planner.chain, planner), []
        for row in rows:
            encoded = encode(setup.model, setup.processor, [setup.test[row]])
            with torch.no_grad(), pruner(setup.model):
                setup.model(**encoded.inputs, logits_to_keep=1)
            means.append(planner.controller.running_mean)
        found[name] = max(abs(mean / STREAM_MEAN - 1.0) for mean in means[WINDOW - 1 :])
    return found


def flops(setup: Setup, seed: int) -> dict[str, int]:
    """Prefills of test items that torch counts more FLOPs of than the budget or the cap allows."""
    predictor, over, counted = setup.predictor(seed), 0, 0
    for place, asked in enumerate((*HARD, *MEANS)):
        for sample in setup.test[place * COUNTED : (place + 1) * COUNTED]:
            encoded = encode(setup.model, setup.processor, [sample])
            planner = JointPlanner(predictor, asked)  # a new one warns again of a floor that it has met before
            limit = planner.budget.cap or planner.budget.amount
            pruner = Pruner(planner.chain, planner)
            full = int(planner.cost.full(Workload(encoded.num_text, encoded.num_visual))[0])
            with torch.no_grad(), counted_flops() as whole_counter:
                setup.model(**encoded.inputs, logits_to_keep=1)
            with warnings.catch_warnings(record=True) as said, torch.no_grad(), pruner(setup.model):
                warnings.simplefilter("always")
                setup.model(**encoded.inputs, logits_to_keep=1)  # the first prefill under a pruner is checked
                with counted_flops() as counter:
                    setup.model(**encoded.inputs, logits_to_keep=1, use_cache=True)
                bill = int(planner.cost.bill(pruner.token_counts(setup.model), pruner.workload(setup.model))[0])
            whole, total = whole_counter.get_total_flops(), counter.get_total_flops()
            floor = any(issubclass(warning.category, BudgetWarning) for warning in said)
            spent = total - (whole - full)
            if spent > (bill if floor else limit * full):
                print("over:", setup.name, asked, sample.id, spent / full, bill / full)
                over += 1
            counted += 1
    return {"over": over, "counted": counted}


def parts_of(setup: Callable[[], Setup], seeds: int, bill: Bill) -> dict[str, Callable[[], dict[str, Any]]]:
    """All parts of one model by name. bill: of the joint search with a seed, which its rivals get."""
    found: dict[str, Callable[[], dict[str, Any]]] = {}
    for part in (joint, gap, compensation, drift, flops):
        for seed in range(seeds):
            found[f"{part.__name__}-{seed}"] = lambda part=part, seed=seed: part(setup(), seed)
    return found | rival_parts(setup, seeds, bill)


def figures_of(found: dict[str, dict[str, Any]]) -> dict[str, Figure]:
    """The figures of the parts that have run."""
    made: dict[str, Figure] = {}
    gaps: dict[float, list[float]] = {}
    drifts, over = [], []
    for model, parts in found.items():
        runs = [part for name, part in parts.items() if name.startswith("joint-")]
        if not runs:
            continue
        asked = ("mean:0.18,max:0.5", "mean:0.25,max:0.5", "0.2")
        for (name, bars), budget in zip(BARS.items(), asked, strict=True):
            value = statistics.mean(run["points"][budget]["accuracy"] for run in runs)
            made[f"{name}.{model}"] = Figure(value, "higher", bars[MODELS.index(model)], "fraction")
        seconds = statistics.mean(run["processor_seconds"] for run in runs)
        made[f"processor_seconds.{model}"] = Figure(seconds, "lower", 45, "seconds")
        ratio = statistics.mean(run["spent"]["total"] / run["grid"] for run in runs)
        made[f"cost_vs_grid.{model}"] = Figure(ratio, "lower", 0.025, "ratio")
        ratios = [
            (float(budget), kl["with"] / kl["without"])
            for name, part in parts.items()
            if name.startswith("compensation-")
            for budget, kl in part.items()
        ]
        if ratios:
            most = max(ratio for _, ratio in ratios)
            made[f"kl_with_compensation.{model}"] = Figure(most, "lower", 1.0, "ratio")
        if ratios and model == "tiny-gemma":
            low = statistics.mean(ratio for budget, ratio in ratios if budget <= 0.35)
            made[f"kl_with_compensation.20_to_35.{model}"] = Figure(low, "lower", 0.5, "ratio")
        for name, part in parts.items():
            drifts += list(part.values()) if name.startswith("drift-") else []
            over += [part["over"]] if name.startswith("flops-") else []
            for budget in GAPS if name.startswith("gap-") else ():
                kl = part[str(budget)]
                reach = kl["static"] - kl["reachable"]
                gaps.setdefault(budget, []).append((kl["static"] - kl["taken"]) / reach if reach > 1e-6 else 1.0)
    if drifts:
        made["mean_drift"] = Figure(max(drifts), "lower", 0.05, "fraction")
    if over:
        made["budget_violations"] = Figure(sum(over), "lower", 0, "samples")
    for budget, closed in gaps.items():
        made[f"closed_of_reachable.{round(100 * budget)}"] = Figure(statistics.mean(closed), "higher", 0.85, "share")
    return made | rival_figures(found)


def without_scores(part: Any) -> Any:
    """The same without what each item scores: thousands of numbers, which the cache keeps."""
    if isinstance(part, dict):
        return {key: without_scores(value) for key, value in part.items() if key != "scores"}
    return part


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--only", default="", help="kinds of parts, or single ones: single,rival-scaled,joint-0")
    parser.add_argument("--samples", type=int, default=128, help="calibration items of each task")
    parser.add_argument("--test", type=int, default=128, help="test items of each task")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--cache", type=Path, default=Path("runs/bench-joint"))
    parser.add_argument("--into", type=Path, default=None, help="another folder for the result")
    given = parser.parse_args()
    warnings.simplefilter("ignore", BudgetWarning)
    settings = {"samples": given.samples, "test": given.test, "fresh_seed": FRESH_SEED}
    only = [name for name in given.only.split(",") if name]
    found: dict[str, dict[str, Any]] = {}
    for model in given.models.split(","):
        kept: list[Setup] = []

        def setup(model: str = model, kept: list[Setup] = kept) -> Setup:
            kept[:] = kept or [Setup(model, given)]
            return kept[0]

        def bill(seed: int, model: str = model) -> float | None:
            return found.get(model, {}).get(f"joint-{seed}", {}).get("spent", {}).get("total")

        for name, part in parts_of(setup, given.seeds, bill).items():
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
    details = {"settings": settings, "parts": without_scores(found)}
    write("joint", figures_of(found), details, seed=FRESH_SEED, **options)


if __name__ == "__main__":
    main()
