"""What the shipped models can do, and what pruning does to them.

    python benchmarks/zoo.py [--models tiny-qwen,tiny-llava] [--limit N] [--spread]

For each model: accuracy on the test set, its worst task, what is left when the picture is blanked, and the seconds of a
first and a second configuration on the same pictures. With FastV's scores: `loss_at_90`, what the schedule loses that a
calibration set picks at 90 % of the FLOPs; and for tiny-qwen `spread_at_50`, the distance between the best and the worst
of 100 random non-increasing schedules at 45-55 % of the FLOPs. Those two are picked on one half of the test set and
measured on the other: the extremes of 100 noisy numbers would flatter the distance. results/spread.png shows all of them.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from typing import Any

import torch

from figures import RESULTS, Figure, write
from vispco import Schedule
from vispco import models as zoo
from vispco.cost import Cost, Workload
from vispco.cost import get as get_cost
from vispco.data import dataset
from vispco.evaluation import Evaluation, TaskEvaluator
from vispco.evaluation.frontier import Frontier, Point
from vispco.models.shipped import MEASURED
from vispco.report.plots import configurations_info, draw_configurations

TEXT, VISUAL = 12, 68  # tokens of a typical test item
BAND = (0.45, 0.55)
SPREAD = "tiny-qwen"


def figure(value: float, bar: float, better: str = "higher") -> Figure:
    return Figure(round(value, 4), better, bar, "fraction")  # type: ignore[arg-type]


def scores(found: Evaluation) -> dict[str, float]:
    return {task.task: round(task.accuracy, 4) for task in found.tasks}


def measure(name: str, samples: list[Any]) -> tuple[dict[str, Figure], dict[str, Any]]:
    """How well it sees, and how long that takes."""
    model, processor = zoo.load(name)
    evaluate = TaskEvaluator(model, processor, samples)
    seconds = {}
    for label, subject in (("first", None), ("again", None), ("half", Schedule.single(2, 0.4, evaluate.num_layers))):
        started = time.perf_counter()
        found = evaluate(subject)
        seconds[label] = round(time.perf_counter() - started, 1)
        if label == "first":
            seen = found
    blank = zoo.accuracy(model, processor, samples, blank=True)
    figures = {
        f"accuracy.{name}": figure(seen.accuracy, 0.85),
        f"worst_task.{name}": figure(min(task.accuracy for task in seen.tasks), 0.65),
        f"blank.{name}": figure(blank["average"], 0.45, "lower"),
    }
    return figures, {"accuracy": scores(seen), "blank": blank, "seconds": seconds, "threads": torch.get_num_threads()}


def random_schedules(cost: Cost, count: int, seed: int = 0) -> list[Schedule]:
    """Non-increasing curves that a typical picture pays 45-55 % of the FLOPs for, each with a random number of steps.

    Layers and heights of the steps are random, too. Curves of as many steps as layers (sorted uniform numbers) are all
    much alike at a given price, and would say little about how schedules differ.
    """
    rng, found, L = random.Random(seed), [], cost.num_layers
    while len(found) < count:
        layers = sorted(rng.sample(range(1, L), rng.randint(1, L - 1)))
        heights = sorted((rng.random() for _ in layers), reverse=True)
        schedule = Schedule.stages(dict(zip(layers, heights, strict=True)), L)
        if BAND[0] <= float(cost.fraction(schedule.tensor(), Workload(TEXT, VISUAL))) <= BAND[1]:
            found.append(schedule)
    return found


def one_step(cost: Cost, budget: float) -> list[Schedule]:
    """Schedules with one step, at every layer where one step can meet the budget."""
    found = []
    for layer in range(1, cost.num_layers):
        low, high = 0.0, 1.0
        for _ in range(30):
            keep = (low + high) / 2
            schedule = Schedule.single(layer, keep, cost.num_layers)
            over = float(cost.fraction(schedule.tensor(), Workload(TEXT, VISUAL))) > budget
            low, high = (low, keep) if over else (keep, high)
        if high > 1e-3:
            found.append(Schedule.single(layer, low, cost.num_layers))
    return found


def loss(name: str, samples: list[Any], limit: int) -> tuple[dict[str, Figure], dict[str, Any]]:
    """What a good schedule loses at 90 %: picked on the calibration set, measured on the test set."""
    model, processor = zoo.load(name)
    candidates = one_step(get_cost("exact", model.config), 0.9)
    tried = TaskEvaluator(model, processor, list(dataset("calibration", limit=limit))).many(candidates)
    best = candidates[max(range(len(tried)), key=lambda i: tried[i].accuracy)]
    full, pruned = TaskEvaluator(model, processor, samples).many([None, best])
    details = {
        "full": full.accuracy,
        "pruned": pruned.accuracy,
        "fraction": pruned.fraction["exact"],
        "picked": best.to_dict(),
    }
    return {f"loss_at_90.{name}": figure(full.accuracy - pruned.accuracy, 0.02, "lower")}, details


def spread(name: str, samples: list[Any]) -> tuple[dict[str, Figure], dict[str, Any], Frontier]:
    """How far schedules of about the same price lie apart, and a frontier of all that were tried."""
    model, processor = zoo.load(name)
    cost = get_cost("exact", model.config)
    seen = [sum(other.task == sample.task for other in samples[:place]) for place, sample in enumerate(samples)]
    parts = [[s for s, number in zip(samples, seen, strict=True) if number % 2 == part] for part in (0, 1)]
    halves = [TaskEvaluator(model, processor, part) for part in parts]
    drawn = random_schedules(cost, 100)
    stepped = [schedule for budget in (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9) for schedule in one_step(cost, budget)]
    found = halves[0].many([*drawn, *stepped, Schedule.full(cost.num_layers)])
    inside = [(e.accuracy, s) for e, s in zip(found, drawn, strict=False) if BAND[0] <= e.fraction["exact"] <= BAND[1]]
    worst, best = (pick(inside, key=lambda pair: pair[0]) for pick in (min, max))
    judged = halves[1].many([worst[1], best[1]])
    names = [*[f"random {i}" for i in range(len(drawn))], *["one step"] * len(stepped), "full"]
    schedules = [*drawn, *stepped, Schedule.full(cost.num_layers)]
    frontier = Frontier(Point(s, e, {"drawn": n}) for s, e, n in zip(schedules, found, names, strict=True))
    details = {
        "inside": len(inside),
        "items": [len(half.samples) for half in halves],
        "picked_on": [worst[0], best[0]],
        "measured": [e.accuracy for e in judged],
        "fractions": [e.fraction["exact"] for e in judged],
        "schedules": [s.to_dict() for _, s in (worst, best)],
        "all": [[round(e.fraction["exact"], 4), round(e.accuracy, 4)] for e in found],
    }
    return {f"spread_at_50.{name}": figure(judged[1].accuracy - judged[0].accuracy, 0.15)}, details, frontier


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(MEASURED))
    parser.add_argument("--limit", type=int, default=None, help="test items per task (all 128 unless told)")
    parser.add_argument("--spread", action="store_true", help="spread_at_50 alone; what else was measured stays")
    given = parser.parse_args()
    samples = list(dataset("test", limit=given.limit))
    figures: dict[str, Figure] = {}
    details: dict[str, Any] = {}
    file = RESULTS / "zoo.json"
    if file.exists():  # what was measured of other models stays
        old = json.loads(file.read_text())
        figures = {key: Figure(**value) for key, value in old["figures"].items()}
        details = old["details"]
    for name in [SPREAD] if given.spread else given.models.split(","):
        if not given.spread:
            found, details[name] = measure(name, samples)
            lost, details[name]["at_90"] = loss(name, samples, min(32, given.limit or 32))
            figures |= found | lost
        if name == SPREAD:
            apart, details[name]["at_50"], frontier = spread(name, samples)
            figures |= apart
            if given.limit is None:
                draw_configurations(configurations_info(frontier), RESULTS / "spread.png")
        print(name, json.dumps({k: v for k, v in details[name].items() if k != "at_50"}))
    details["test_items"] = len(samples)
    if given.limit is not None:
        print("--limit was given: nothing is written", {k: v.value for k, v in figures.items()}, file=sys.stderr)
        return
    write("zoo", dict(sorted(figures.items())), details, seed=0)


if __name__ == "__main__":
    main()
