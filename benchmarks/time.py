"""Is pruned never slower, and do profiles predict? Run it on a quiet machine: every figure is a ratio inside one run.

Planning is inside all times: a predictor of the kind that a search makes chooses the shape, and its solve is done anew for
each prompt that was not seen before.
"""

# ruff: noqa: A005 - named after its result; the interpreter's own `time` is built in, and found first
from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import torch

import vispco
from figures import Figure, write
from vispco import Pruner, Schedule, cost
from vispco.bench.clock import now
from vispco.bench.overhead import random_predictor
from vispco.bench.prediction import predict_batch, useful_batch
from vispco.bench.prefill import count_flops
from vispco.bench.profiling import language_seconds, profile_model
from vispco.bench.timing import quantile
from vispco.data import dataset
from vispco.evaluation.encoded import Encoded, encode
from vispco.families import family_of
from vispco.planning.planner import BudgetPlanner, predicted_shape

MODELS = ("tiny-qwen", "tiny-llava", "tiny-gemma")
BUDGETS = (0.2, 0.3, 0.5, 0.7, 0.9)
LEAST = {8: 0.98, 1: 0.93}


def planned(model: Any, budget: float) -> Pruner:
    """FastV at a budget, by a predictor whose anchors are one shape: two steps."""
    predictor = random_predictor(model)
    layers = predictor.config.dimensions["num_layers"]
    shape = predictor.kernel.initial(layers, positions=[1.5, layers / 2, layers - 1.5], heights=[0.5, 0.3, 0.3])
    with torch.no_grad():
        predictor.anchors.copy_(shape.expand_as(predictor.anchors))
    exact = cost.get("exact", model.config)
    return Pruner("fastv", BudgetPlanner(predicted_shape(predictor, budget), predictor.kernel, budget, exact))


def prompts(model: Any, processor: Any, batch: int) -> Encoded:
    return encode(model, processor, dataset("test", limit=-(-batch // 8) + 1)[:batch])


def speedups(model: Any, encoded: Encoded, pruners: Sequence[Pruner], rounds: int) -> list[float]:
    """How many times faster than unpruned, pictures in, first word out: the median over rounds of the ratio inside each."""
    ratios: list[list[float]] = [[] for _ in pruners]
    for number in range(rounds + 1):
        whole = first_word_seconds(model, encoded, None)
        for place, pruner in enumerate(pruners):
            ratio = whole / first_word_seconds(model, encoded, pruner)
            ratios[place] += [ratio] if number else []
    return [statistics.median(values) for values in ratios]


def first_word_seconds(model: Any, encoded: Encoded, pruner: Pruner | None) -> float:
    """The whole prefill, vision tower and planning included."""
    with nullcontext() if pruner is None else pruner(model):
        start = now(model.device)
        model(**encoded.inputs, use_cache=True, logits_to_keep=1)
        return now(model.device) - start


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--schedules", type=int, default=20, help="on which predictions are compared")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    figures: dict[str, Figure] = {}
    details: dict[str, Any] = {"threads": torch.get_num_threads(), "rounds": args.rounds, "slowest": {}}
    for name in MODELS:
        model, processor = vispco.load(name)
        for batch, bar in LEAST.items():
            encoded = prompts(model, processor, batch)
            found = speedups(model, encoded, [planned(model, budget) for budget in BUDGETS], args.rounds)
            figures[f"slowest.{name}.batch_{batch}"] = Figure(min(found), "higher", bar, "ratio")
            details["slowest"][f"{name}, batch of {batch}"] = dict(zip(map(str, BUDGETS), found, strict=True))
            print(name, batch, found, file=sys.stderr, flush=True)
    model, processor = vispco.load("tiny-qwen")
    samples = dataset("test", limit=3)[:16]
    profile = profile_model(model, processor, samples, batches=(4, 8, 16), rounds=args.rounds)
    encoded = prompts(model, processor, 16)
    batch = useful_batch(profile, max(encoded.num_text), max(encoded.num_visual))
    encoded = prompts(model, processor, batch)
    details["demo_batch"] = batch
    for budget in (0.3, 0.5):
        pruner = planned(model, budget)
        implied = count_flops(model, encoded, None) / count_flops(model, encoded, pruner)
        found = speedups(model, encoded, [pruner], args.rounds)[0]
        figures[f"ttft_speedup_vs_implied.{100 * budget:.0f}"] = Figure(found / implied, "higher", 0.7, "ratio")
    errors, held = compare_predictions(model, prompts(model, processor, 8), profile, args)
    figures["time_error.p50"] = Figure(quantile(sorted(errors), 0.5), "lower", 0.05, "fraction")
    figures["time_error.p95"] = Figure(quantile(sorted(errors), 0.95), "lower", 0.12, "fraction")
    figures["ms_budget_held"] = Figure(held, "higher", 0.95, "fraction")
    write("time", figures, details, args.seed)


def compare_predictions(model: Any, encoded: Encoded, profile: Any, args: Any) -> tuple[list[float], float]:
    """Relative errors over random schedules that no profile was fitted to, and how often a predicted time is held."""
    generator = torch.Generator().manual_seed(args.seed)
    layers = len(family_of(model).layers(model))
    price = profile.cost(len(encoded.num_visual))
    whole = predict_batch(price, Schedule.full(layers).counts(encoded.num_visual), encoded.num_text, encoded.num_visual)
    errors, within = [], []
    for _ in range(args.schedules):
        heights = torch.rand(2, generator=generator).sort(descending=True).values.tolist()
        places = (torch.randperm(layers - 1, generator=generator)[:2] + 1).sort().values.tolist()
        schedule = Schedule.stages(dict(zip(places, heights, strict=True)), layers)
        pruner, ratios = Pruner("fastv", schedule), []
        predicted = predict_batch(price, schedule.counts(encoded.num_visual), encoded.num_text, encoded.num_visual)
        for number in range(max(3, args.rounds // 3) + 1):
            unpruned, pruned = (language_seconds(model, encoded, each) for each in (None, pruner))
            ratios += [pruned / unpruned] if number else []  # a machine that drifts drifts in both
        measured = statistics.median(ratios)
        errors.append(abs(predicted / whole / measured - 1))
        within.append(measured <= 1.03 * predicted / whole)
    return errors, sum(within) / len(within)


if __name__ == "__main__":
    main()
