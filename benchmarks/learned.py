"""What the learned methods do on the shipped models, beside FastV at the same FLOPs.

    python benchmarks/learned.py [--models tiny-qwen,tiny-llava] [--limit 24] [--weights DIR] [--only MODEL/METHOD,...]

For each method and model: accuracy on the test set with its trained weights (shipped, or DIR/MODEL/METHOD) and with
untrained ones, both brought to the same target on calibration samples, with the FLOPs that they really take; FastV from
layer 2 on, scaled to a budget of as much for each sample; and the unpruned model. --only measures some again, whose
weights have changed, and takes the others from the last result.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch

from figures import RESULTS, Figure, write
from vispco import Pruner
from vispco import models as zoo
from vispco.data import dataset
from vispco.evaluation import Evaluation, TaskEvaluator
from vispco.pruner import presets
from vispco.scorers import Chain
from vispco.scorers.learned import LearnedScorer
from vispco.search.calibration_batches import CalibrationBatches
from vispco.search.learned import ScorerSettings, ScorerTrainer
from vispco.search.objective import Objective

METHODS = ("atp-llava", "dynamic-llava", "madtp")
SEED = 0


def untrained(trained: Any, model: Any, processor: Any) -> LearnedScorer:
    """The same method before training; one with a controller has settled at its target, on calibration samples."""
    torch.manual_seed(SEED)
    kind, config = type(trained), trained.network.config
    fresh = kind.fresh(model, target=config.target, **config.options)
    batches = CalibrationBatches(model, processor, list(dataset("calibration", limit=8)), batch_size=16)
    ScorerTrainer(Objective(model, fresh), fresh, batches, ScorerSettings()).settle()
    fresh.network.eval()
    return fresh


def rounded_figures(found: Evaluation) -> dict[str, float]:
    figures = {"accuracy": found.accuracy, "low": found.low, "high": found.high, "flops": found.fraction["exact"]}
    return {key: round(float(value), 4) for key, value in figures.items()}


def before(limit: int) -> dict[str, Any]:
    """What the last run found, if it was of as many items."""
    found: dict[str, Any] = json.loads((RESULTS / "learned.json").read_text())["details"]
    if found["items_of_each_task"] != limit:
        raise SystemExit(f"The last result is of {found['items_of_each_task']} items of each task: give --limit.")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(zoo.names()[:3]))
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--limit", type=int, default=24, help="test items of each task")
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--only", help="MODEL/METHOD with commas between them")
    given = parser.parse_args()
    figures: dict[str, Figure] = {}
    details = before(given.limit) if given.only else {"items_of_each_task": given.limit}
    only = given.only.split(",") if given.only else None
    for name in given.models.split(","):
        asked = [m for m in given.methods.split(",") if only is None or f"{name}/{m}" in only]
        if not asked:
            continue
        model, processor = zoo.load(name)
        evaluate = TaskEvaluator(model, processor, list(dataset("test", limit=given.limit)))
        if only is None:
            details[name] = {"unpruned": rounded_figures(evaluate(None))}
        for method in asked:
            place = "" if given.weights is None else f"(weights={given.weights / name / method})"
            trained = Chain.of(f"{method}{place}").for_model(model).scorers[0]
            schedule = trained.deployed_schedule(evaluate.num_layers, trained.network.config.target)
            own = evaluate(Pruner(trained, schedule))
            share = own.fraction["exact"]
            rows = {
                "trained": rounded_figures(own),
                "untrained": rounded_figures(evaluate(Pruner(untrained(trained, model, processor), schedule))),
                "fastv": rounded_figures(evaluate(presets.pruner("fastv", model, budget=share))),
            }
            details[name][method] = rows
            print(name, method, *(f"{key} {row['accuracy']:.3f} at {row['flops']:.3f};" for key, row in rows.items()))
    for method in given.methods.split(","):
        rows = [details[name][method] for name in given.models.split(",")]
        for other in ("untrained", "fastv"):
            gain = sum(row["trained"]["accuracy"] - row[other]["accuracy"] for row in rows) / len(rows)
            figures[f"points_over_{other}.{method}"] = Figure(round(100 * gain, 1), "higher", None, "points")
        share = sum(row["trained"]["flops"] for row in rows) / len(rows)
        figures[f"flops.{method}"] = Figure(round(share, 4), "lower", None, "fraction")
    write("learned", figures, details, SEED)


if __name__ == "__main__":
    main()
