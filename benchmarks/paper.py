"""The paper in one command: how long `vispco paper` takes, and which of the paper's statements hold on each shipped model.

python benchmarks/paper.py [--models tiny-qwen,tiny-llava] [--out build/paper]

`minutes` is by the clock, of the first model alone, and `processor_minutes` what it took of one core, whatever else ran;
a run that was stopped goes on, and says nothing about either.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

from figures import Figure, write

FEWER = ("--test", "8", "--draws", "3", "--trials", "120")  # of the models after the first, which are not timed
MODELS = "tiny-qwen,tiny-llava,tiny-gemma,tiny-qwen3"


def run(models: list[str], out: Path, *options: str) -> tuple[float, float, dict]:
    """Minutes by the clock and of processors, and what paper.json says."""
    began, spent = time.perf_counter(), os.times()
    subprocess.run([sys.executable, "-m", "vispco", "paper", *models, "--out", str(out), *options], check=True)
    now = os.times()
    busy = now.children_user + now.children_system - spent.children_user - spent.children_system
    found = json.loads((out / "paper.json").read_text(encoding="utf-8"))
    return (time.perf_counter() - began) / 60, busy / 60, found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default=MODELS)
    parser.add_argument("--out", type=Path, default=Path("build/paper"))
    asked = parser.parse_args()
    models, fresh = asked.models.split(","), not asked.out.exists()
    minutes, busy, found = run(models[:1], asked.out)
    figures = {}
    if fresh:
        figures = {"minutes": Figure(minutes, "lower", 30.0, "minutes")}
        figures["processor_minutes"] = Figure(busy, "lower", None, "minutes")
    for model in models[1:]:
        _, _, other = run([model], asked.out.with_name(f"{asked.out.name}-{model}"), *FEWER)
        found["models"] |= other["models"]
    for model, about in found["models"].items():
        for each in about["statements"]:
            value = re.match(r"[+-][\d.]+", each["measured"])
            budget = re.search(r"(\d+)%", each["claim"])
            if value and budget:
                kind = "gain" if "sampled" in each["claim"] else "multi_step_over_single"
                figures[f"{kind}.{budget[1]}.{model}"] = Figure(float(value[0]), "higher", None, "points")
    write("paper", figures, found, seed=0)


if __name__ == "__main__":
    main()
