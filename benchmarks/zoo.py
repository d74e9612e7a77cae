"""What the shipped models can do: accuracy, the worst task, and what is left when the picture is blanked.

    python benchmarks/zoo.py [--models tiny-qwen,tiny-llava] [--limit N]

The figures about pruning (`spread_at_50`, `loss_at_90`) are added by `--pruning`, which needs many evaluations.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from pathlib import Path

import torch
import transformers

from vispco import zoo
from vispco.data import dataset
from vispco.version import __version__

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(zoo.names()))
    parser.add_argument("--limit", type=int, default=None, help="test items per task (all 128 unless told)")
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
        print(name, json.dumps(more))
    result = {
        "command": "python benchmarks/zoo.py",
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
