"""The committed grids still hold: some of their configurations, drawn at random, evaluated again with today's code.

    python benchmarks/grids_again.py [--models tiny-qwen,tiny-llava,tiny-gemma] [--scorers fastv,sparsevlm,fitprune]
                                     [--draw 12]

A whole sweep of the nine grids takes more than an hour. FLOPs must be the same to the last digit that is kept. Accuracy may
differ by single answers: where two tokens have nearly the same score, rounding decides which one stays.
"""

from __future__ import annotations

import argparse
import json
import random
from typing import Any

from figures import RESULTS, Figure, write
from grids import DIGITS, SCORERS, about, path_of, spec_of
from vispco.evaluation.frontier import Frontier
from vispco.models.shipped import MEASURED

SEED = 0
NAME = "grids_again"


def compare(model: str, scorer: str, draw: int) -> dict[str, Any]:
    """Drawn configurations of one grid: what is committed, and what is found now."""
    path = path_of(model, scorer)
    items = about(path)["items_per_task"]
    spec = spec_of(model, scorer, items)
    if spec.fingerprint()["weights"] != about(path)["weights"]:
        raise SystemExit(f"{path} is of other weights: sweep it again with benchmarks/grids.py.")
    points = list(Frontier.load(path))
    drawn = sorted(random.Random(f"{SEED}/{model}/{scorer}").sample(range(len(points)), draw))
    found = spec.build().many([points[place].schedule for place in drawn])
    rows = []
    for place, now in zip(drawn, found, strict=True):
        then = points[place].evaluation
        same = all(round(now.fraction[cost], DIGITS) == then.fraction[cost] for cost in then.fraction)
        wrong = [abs(a.accuracy - b.accuracy) * b.n for a, b in zip(then.tasks, now.tasks, strict=True)]
        rows.append(
            {
                "configuration": points[place].provenance.get("config"),
                "fraction": [then.fraction["exact"], round(now.fraction["exact"], DIGITS)],
                "same_flops": same,
                "accuracy": [then.accuracy, round(now.accuracy, DIGITS)],
                "answers": round(sum(wrong)),
            }
        )
    return {"configurations": rows, "items": sum(task.n for task in found[0].tasks)}


def figures_of(grids: dict[str, Any]) -> dict[str, Figure]:
    rows = [row for grid in grids.values() for row in grid["configurations"]]
    apart = [now - then for then, now in (row["accuracy"] for row in rows)]
    return {
        "same_flops": Figure(sum(row["same_flops"] for row in rows) / len(rows), "higher", 1.0, "fraction"),
        "same_accuracy": Figure(round(sum(a == 0 for a in apart) / len(apart), 4), "higher", None, "fraction"),
        "mean_accuracy_difference": Figure(round(sum(apart) / len(apart), 6), "higher", None, "fraction"),
        "largest_accuracy_difference": Figure(round(max(map(abs, apart)), 6), "lower", None, "fraction"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(MEASURED))
    parser.add_argument("--scorers", default=",".join(SCORERS))
    parser.add_argument("--draw", type=int, default=12, help="configurations of each grid")
    given = parser.parse_args()
    file = RESULTS / f"{NAME}.json"
    grids: dict[str, Any] = json.loads(file.read_text())["details"] if file.exists() else {}  # others stay
    for model in given.models.split(","):
        for scorer in given.scorers.split(","):
            grids[f"{model}-{scorer}"] = compare(model, scorer, given.draw)
            write(NAME, figures_of(grids), grids, SEED)


if __name__ == "__main__":
    main()
