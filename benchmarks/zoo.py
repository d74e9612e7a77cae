"""What the shipped models can do: accuracy, the worst task, and what is left when the picture is blanked.

    python benchmarks/zoo.py [--models tiny-qwen,tiny-llava] [--pruning] [--limit N]

`--pruning` adds what pruning does to them, with FastV's scores: `spread_at_50`, the difference between the best and the
worst of 100 random non-increasing schedules at 45-55 % of the FLOPs, and `loss_at_90`, what the schedule loses that a
calibration set picks at 90 %.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import sys
import time
from pathlib import Path

import torch
import transformers

from vispco import Schedule, zoo
from vispco.cost import CostModel
from vispco.cost import get as get_cost
from vispco.data import dataset
from vispco.evaluation import TaskEvaluator
from vispco.version import __version__

TEXT, VISUAL = 12, 68  # tokens of a typical test item
RESULTS = Path(__file__).parent / "results" / "zoo.json"


def figure(value: float, bar: float, *, better: str = "higher") -> dict[str, object]:
    return {"value": round(value, 4), "better": better, "bar": bar, "unit": "fraction"}


def machine() -> dict[str, object]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 0
    return {"cores": os.cpu_count(), "memory": f"{memory / 2**30:.0f} GiB"}


def measure(name: str, samples: list) -> tuple[dict, dict]:
    """Figures and details of one model."""
    model, processor = zoo.load(name)
    started = time.perf_counter()
    seen = zoo.accuracy(model, processor, samples)
    seconds = time.perf_counter() - started
    blank = zoo.accuracy(model, processor, samples, blank=True)
    tasks = {task: score for task, score in seen.items() if task != "average"}
    figures = {
        f"accuracy.{name}": figure(seen["average"], 0.85),
        f"worst_task.{name}": figure(min(tasks.values()), 0.65),
        f"blank.{name}": figure(blank["average"], 0.45, better="lower"),
    }
    return figures, {"accuracy": seen, "blank": blank, "seconds": round(seconds, 1)}


def random_schedules(cost: CostModel, count: int, seed: int = 0) -> list[Schedule]:
    """Non-increasing curves that a typical picture pays 45-55 % of the FLOPs for."""
    rng, found = random.Random(seed), []
    while len(found) < count:
        bend = 2 ** rng.uniform(-3, 3)
        curve = (1.0, *sorted((rng.random() ** bend for _ in range(cost.num_layers - 1)), reverse=True))
        if 0.45 <= float(cost.fraction(torch.tensor(curve), TEXT, VISUAL)) <= 0.55:
            found.append(Schedule(curve))
    return found


def schedules_at(cost: CostModel, budget: float) -> list[Schedule]:
    """Schedules with one step, at every layer where one step can meet the budget."""
    found = []
    for layer in range(1, cost.num_layers):
        low, high = 0.0, 1.0
        for _ in range(30):
            keep = (low + high) / 2
            schedule = Schedule.single(layer, keep, cost.num_layers)
            over = float(cost.fraction(schedule.tensor(), TEXT, VISUAL)) > budget
            low, high = (low, keep) if over else (keep, high)
        if high > 1e-3:
            found.append(Schedule.single(layer, low, cost.num_layers))
    return found


def prune(name: str, samples: list, limit: int | None) -> tuple[dict, dict]:
    """Figures and details of pruning one model."""
    model, processor = zoo.load(name)
    cost = get_cost("exact", model.config)
    evaluate = TaskEvaluator(model, processor, samples)
    calibrate = TaskEvaluator(model, processor, list(dataset("calibration", limit=min(32, limit or 32))))
    candidates = schedules_at(cost, 0.9)
    tried = calibrate.many(candidates)
    best = candidates[max(range(len(tried)), key=lambda i: tried[i].accuracy)]
    full, pruned = evaluate.many([None, best])
    figures = {f"loss_at_90.{name}": figure(full.accuracy - pruned.accuracy, 0.02, better="lower")}
    details: dict = {
        "full": full.accuracy,
        "at_90": [pruned.fraction["exact"], pruned.accuracy],
        "picked": best.to_dict(),
    }
    if name == "tiny-qwen":
        drawn = random_schedules(cost, 100)
        found = evaluate.many(drawn)
        inside = [e for e in found if 0.45 <= e.fraction["exact"] <= 0.55]
        accuracies = [e.accuracy for e in inside]
        figures[f"spread_at_50.{name}"] = figure(max(accuracies) - min(accuracies), 0.15)
        details["at_50"] = [[e.fraction["exact"], e.accuracy, s.retention] for e, s in zip(found, drawn, strict=True)]
    return figures, details


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(zoo.names()))
    parser.add_argument("--limit", type=int, default=None, help="test items per task (all 128 unless told)")
    parser.add_argument("--pruning", action="store_true", help="also what pruning does to them")
    given = parser.parse_args()
    samples = list(dataset("test", limit=given.limit))
    figures: dict = {}
    details: dict = {"test_items": len(samples)}
    if RESULTS.exists():  # figures of other models and of pruning stay
        old = json.loads(RESULTS.read_text())
        figures, details = old["figures"], old["details"] | details
    for name in given.models.split(","):
        found, more = measure(name, samples)
        figures |= found
        details[name] = more
        if given.pruning:
            found, pruned = prune(name, samples, given.limit)
            figures |= found
            details[name]["pruning"] = pruned
        print(name, json.dumps(details[name]))
    result = {
        "command": "python benchmarks/zoo.py" + " --pruning" * given.pruning,
        "versions": {
            "vispco": __version__,
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "python": platform.python_version(),
        },
        "machine": machine(),
        "seed": 0,
        "figures": dict(sorted(figures.items())),
        "details": details,
    }
    if given.limit is not None:
        print("--limit was given: nothing is written", file=sys.stderr)
        return
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
