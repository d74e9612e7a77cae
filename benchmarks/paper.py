"""The paper in one command: how long `vispco paper` takes, and which of the paper's statements hold on each shipped model.

python benchmarks/paper.py [--models tiny-qwen,tiny-llava] [--out build/paper] [--fewer]

`minutes` is by the clock, of the commands for the first model alone, with its defaults; `processor_minutes` is what they took
of one core, whatever else ran. --fewer: fewer items, draws and trials for the first model too; then there is no `minutes`.
A run that was stopped goes on.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

from figures import Figure, write

FEWER = ("--test", "8", "--draws", "3", "--trials", "120", "--samples", "16")  # of the models that are not timed
MODELS = "tiny-qwen,tiny-llava,tiny-gemma,tiny-qwen3"


def run(model: str, out: Path, *options: str) -> dict:
    """What paper.json says."""
    subprocess.run([sys.executable, "-m", "vispco", "paper", model, "--out", str(out), *options], check=True)
    return json.loads((out / "paper.json").read_text(encoding="utf-8"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default=MODELS)
    parser.add_argument("--out", type=Path, default=Path("build/paper"))
    parser.add_argument("--fewer", action="store_true", help=f"the first model, too, with {' '.join(FEWER)}")
    asked = parser.parse_args()
    first, *others = asked.models.split(",")
    found = run(first, asked.out, *(FEWER if asked.fewer else ()))
    for step in found["commands"]:
        step["command"] = [word.replace(str(asked.out), asked.out.name) for word in step["command"]]
    spent = {key: sum(step[key] for step in found["commands"]) / 60 for key in ("seconds", "processor_seconds")}
    figures = {"processor_minutes": Figure(spent["processor_seconds"], "lower", None, "minutes")}
    if not asked.fewer:
        figures["minutes"] = Figure(spent["seconds"], "lower", 30.0, "minutes")
    for model in others:
        found["models"] |= run(model, asked.out.with_name(f"{asked.out.name}-{model}"), *FEWER)["models"]
    for model, about in found["models"].items():
        for each in about["statements"]:
            measured, budget = (
                re.search(r"([+-][\d.]+) points|×([\d.]+)", each["measured"]),
                re.search(r"(\d+)%", each["claim"]),
            )
            if measured is None:
                continue
            points, times = measured.groups()
            if times:
                figures[f"grid_over_search_time.{model}"] = Figure(float(times), "higher", None, "ratio")
            elif budget is None:
                figures[f"near_the_frontier.{model}"] = Figure(float(points), "higher", None, "points")
            else:
                kind = "gain" if "sampled" in each["claim"] else "multi_step_over_single"
                figures[f"{kind}.{budget[1]}.{model}"] = Figure(float(points), "higher", None, "points")
    write("paper", figures, {**found, "fewer": asked.fewer}, seed=0)


if __name__ == "__main__":
    main()
