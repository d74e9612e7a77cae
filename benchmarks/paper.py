"""The paper in one command: how long `vispco paper` takes, and which of the paper's statements hold on each shipped model.

python benchmarks/paper.py [--models tiny-qwen,tiny-llava] [--out build/paper]

`minutes` is by the clock, of the first model alone; a run that was stopped goes on, and says nothing about minutes.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from pathlib import Path

from figures import Figure, write

MODELS = "tiny-qwen,tiny-llava,tiny-gemma,tiny-qwen3"


def run(models: list[str], out: Path) -> tuple[float, dict]:
    """Minutes by the clock and what paper.json says."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-m", "vispco", "paper", *models, "--out", str(out)], check=True)
    return (time.perf_counter() - began) / 60, json.loads((out / "paper.json").read_text(encoding="utf-8"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default=MODELS)
    parser.add_argument("--out", type=Path, default=Path("build/paper"))
    asked = parser.parse_args()
    models, fresh = asked.models.split(","), not asked.out.exists()
    minutes, found = run(models[:1], asked.out)
    if models[1:]:
        _, found = run(models, asked.out)
    figures = {"minutes": Figure(minutes, "lower", 30.0, "minutes")} if fresh else {}
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
