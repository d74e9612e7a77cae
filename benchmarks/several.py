"""Two pictures and short videos on the shipped models: unpruned, and at two budgets with every allocation.

python benchmarks/several.py [--limit 64] [--models tiny-qwen]

Models that are not named keep what results/several.json has of them.

The models were trained on single pictures. tiny-qwen takes videos; the other two read the frames as pictures, of which
they get every second one. Schedules are one step at layer 0.4 L, moved to the budget for every prompt; nothing is searched.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from itertools import product
from typing import Any

from figures import RESULTS, Figure, write

MODELS = ("tiny-qwen", "tiny-llava", "tiny-gemma")
METHODS = ("fastv", "divprune")
BUDGETS = (0.5, 0.25)
PAGE = RESULTS.parents[1] / "docs" / "several.md"
THINNED = 2  # of the frames, every so many-th for models without videos


def evaluate(name: str, limit: int) -> dict[str, Any]:
    """Accuracies of one model, by task, method and allocation."""
    import vispco
    from vispco.data import dataset
    from vispco.evaluation import TaskEvaluator
    from vispco.evaluation.encoded import shows_video
    from vispco.pruner.pruner_spec import PrunerSpec
    from vispco.scorers import ALLOCATIONS

    model, processor = vispco.load(name)
    found: dict[str, Any] = {}
    for task in ("pair", "clip"):
        samples = list(dataset("test", task, limit))
        if task == "clip" and not shows_video(samples[0], processor):
            samples = [replace(sample, images=sample.images[::THINNED]) for sample in samples]
        evaluator = TaskEvaluator(model, processor, samples, batch_size=8)
        whole = evaluator()
        rows: dict[str, Any] = {"unpruned": {"accuracy": whole.accuracy, "low": whole.low, "high": whole.high}}
        for budget, method, allocation in product(BUDGETS, METHODS, ALLOCATIONS):
            pruner = PrunerSpec.choose(method=method, budget=budget, allocation=allocation).resolve(model)
            result = evaluator(pruner)
            rows[f"{method}, {allocation}, {budget:.0%}"] = {
                **{key: getattr(result, key) for key in ("accuracy", "low", "high")},
                "budget": budget,
                "fraction": result.fraction["exact"],
            }
        found[task] = {"items": len(samples), "pictures": samples[0].num_images, "rows": rows}
        print(name, task, {key: f"{row['accuracy']:.3f}" for key, row in rows.items()}, flush=True)
    return found


def write_page(details: dict[str, Any]) -> None:
    """The table of docs/several.md."""
    begin, end = "<!-- figures: begin -->", "<!-- figures: end -->"
    columns = [(name, task) for name in details for task in details[name]["tasks"]]
    lines = [
        f"Accuracy in percent on {next(iter(details['tiny-qwen']['tasks'].values()))['items']} test items of each task.",
        "",
        "| | " + " | ".join(f"{name}, {task}" for name, task in columns) + " |",
        "|---|" + "---:|" * len(columns),
    ]
    for row in details[columns[0][0]]["tasks"][columns[0][1]]["rows"]:
        found = [details[name]["tasks"][task]["rows"][row]["accuracy"] for name, task in columns]
        lines.append(f"| {row} | " + " | ".join(f"{100 * value:.1f}" for value in found) + " |")
    before, rest = PAGE.read_text(encoding="utf-8").split(begin)
    PAGE.write_text(f"{before}{begin}\n" + "\n".join(lines) + f"\n{end}{rest.split(end)[1]}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=int, default=64, help="test items of each task")
    parser.add_argument("--models", nargs="*", default=MODELS)
    given = parser.parse_args()
    fresh: dict[str, Any] = {}
    for name in given.models:
        start = time.process_time()
        fresh[name] = {"tasks": evaluate(name, given.limit), "minutes": (time.process_time() - start) / 60}
    path = RESULTS / "several.json"
    known = json.loads(path.read_text())["details"] if path.exists() else {}
    details = {name: {**known, **fresh}[name] for name in MODELS if name in known or name in fresh}
    figures: dict[str, Figure] = {}
    for name, measured in details.items():
        for task, found in measured["tasks"].items():
            figures[f"{name}.{task}.unpruned"] = Figure(
                found["rows"]["unpruned"]["accuracy"], "higher", None, "accuracy"
            )
    over = [row["fraction"] / row["budget"] for measured in details.values() for found in measured["tasks"].values() for row in found["rows"].values() if "fraction" in row]  # fmt: skip
    figures["largest_share_of_a_budget"] = Figure(max(over), "lower", 1.0, "mean cost / budget")
    figures["minutes"] = Figure(
        sum(measured["minutes"] for measured in details.values()), "lower", 15.0, "minutes of one core"
    )
    write("several", figures, details, seed=0)
    if set(details) == set(MODELS):
        write_page(details)


if __name__ == "__main__":
    main()
