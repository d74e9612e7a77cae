"""Is pruned never slower, and do profiles predict? Run it on a quiet machine: every figure is a ratio inside one run.

Planning is inside all times: a predictor of the kind that a search makes chooses the shape and solves it for the budget, as it
does for every prefill; what it has solved for a size it remembers, as it does in use.
`slowest.*` at batch 1 is over eight prompts with pictures of different sizes, one after the other. The layers of
Qwen2.5-VL-3B's size (`.large`) have random weights; there are few of them, so that a run is short.
It is done in parts (--part), each of a few minutes; the result has all parts that are there.
"""

# ruff: noqa: A005 - named after its result; the interpreter's own `time` is built in, and found first
from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any
from unittest import mock

import torch

import prefill
import vispco
from figures import Figure, write
from operation_counts import random_joint_predictor
from vispco import Pruner, Schedule, cost, kernels
from vispco.data import dataset
from vispco.evaluation.encoded import Encoded, encode
from vispco.families import family_of
from vispco.pruner.budget_planner import static_shape
from vispco.pruner.joint_planner import JointPlanner
from vispco.pruner.measured_planner import MeasuredPlanner
from vispco.timing.prediction import predict_batch, useful_batch
from vispco.timing.prefill import count_flops, now
from vispco.timing.profiling import language_seconds, profile_model, profile_prompts
from vispco.timing.timing import quantile

MODELS = ("tiny-qwen", "tiny-llava", "tiny-gemma")
BUDGETS = (0.2, 0.3, 0.5, 0.7, 0.9)
LEAST = {8: 0.98, 1: 0.93}
DEPTHS = range(0, 56, 7)  # of the stack, over about one piece of it
PARTS = (*MODELS, "demo", "large", "large-errors")
SHARE = 0.5  # of the FLOPs, on the large layers
LARGE_SIDE, LARGE_LAYERS, LARGE_ROUNDS = 32, 4, 2  # the last two: where predictions are compared
Part = tuple[dict[str, Figure], dict[str, Any]]


def planned(model: Any, budget: float, kind: str = "two steps") -> Pruner:
    """FastV at a budget, by a predictor whose configurations are one shape."""
    predictor = random_joint_predictor(model, ("fastv",), anchors=12)
    layers = predictor.make_cost().num_layers
    shapes: dict[str, dict[str, list[float]]] = {  # a step at 0.5 is before the second layer
        "two steps": {"positions": [1.5, layers / 2, layers - 1.5], "heights": [0.5, 0.3, 0.3]},
        "single": {"positions": [0.5, layers - 1.0, layers - 0.5], "heights": [0.4, 0.4, 0.4]},
        "multi-step": {"positions": [0.5, layers / 2, layers - 1.5], "heights": [0.5, 0.35, 0.2]},
    }
    shape = predictor.kernel.initial(layers, **shapes[kind])
    with torch.no_grad():
        predictor.params.copy_(shape.expand_as(predictor.params))
    return Pruner("fastv", JointPlanner(predictor, budget))


def prompts(model: Any, processor: Any, batch: int) -> Encoded:
    return encode(model, processor, dataset("test", limit=-(-batch // 8) + 1)[:batch])


def speedups(
    model: Any,
    batches: Sequence[Encoded],
    pruners: Sequence[Pruner],
    rounds: int,
    depths: Sequence[int] = (0,),
    clock: Callable[[], float] | None = None,
) -> list[float]:
    """How many times faster than unpruned, pictures in, first word out: the median over rounds of the ratio inside each.

    Unpruned and pruned prefills of one batch stand side by side, and are all called from each of some stack depths.
    clock: another one than that of the device; then no prefill is left untimed.
    """
    ratios: list[list[float]] = [[] for _ in pruners]
    for number in range(rounds + 1):
        seconds = torch.zeros(1 + len(pruners))
        for place, encoded in enumerate(batches):
            for depth in depths if len(batches) == 1 else (depths[place % len(depths)],):
                each = [called_from(depth, first_word_seconds, model, encoded, p, clock) for p in (None, *pruners)]
                seconds += torch.tensor(each)
        for place, ratio in enumerate((seconds[0] / seconds[1:]).tolist()):
            ratios[place] += [ratio] if number else []
    return [statistics.median(values) for values in ratios]


def called_from(depth: int, function: Callable[..., float], *args: Any) -> float:
    """A call from so many frames deeper. CPython keeps its frames in pieces of 16 KB and gives a piece back to the system as
    soon as it is left: where a piece ends inside of a layer, that layer takes longer, whoever calls it. So depths are mixed.
    """
    return function(*args) if depth == 0 else called_from(depth - 1, function, *args)


def first_word_seconds(
    model: Any, encoded: Encoded, pruner: Pruner | None, clock: Callable[[], float] | None = None
) -> float:
    """The whole prefill, vision tower and planning included; not the first one after a pruner was put on or taken off."""
    with nullcontext() if pruner is None else pruner(model):
        if clock is None:
            model(**encoded.inputs, use_cache=True, logits_to_keep=1)
        start = now(model.device) if clock is None else clock()
        model(**encoded.inputs, use_cache=True, logits_to_keep=1)
        return (now(model.device) if clock is None else clock()) - start


def slowest(name: str, args: Any) -> Part:
    figures, details = {}, {}
    model, processor = vispco.load(name)
    for batch, bar in LEAST.items():
        several = [prompts(model, processor, batch)]
        if batch == 1:
            several = [encode(model, processor, [sample]) for sample in dataset("test", limit=1)[:8]]
        depths = DEPTHS if batch == 1 else DEPTHS[::4]  # a layer of eight prompts takes long itself
        found = speedups(model, several, [planned(model, budget) for budget in BUDGETS], args.rounds, depths)
        figures[f"slowest.{name}.batch_{batch}"] = Figure(min(found), "higher", bar, "ratio")
        details[f"{name}, batch of {batch}"] = dict(zip(map(str, BUDGETS), found, strict=True))
    return figures, {"slowest": details}


def demo(args: Any) -> Part:
    """tiny-qwen at the batch that the demo chooses, and predictions at a batch of 8."""
    figures: dict[str, Figure] = {}
    model, processor = vispco.load("tiny-qwen")
    samples = dataset("test", limit=3)[:16]
    profile = profile_model(model, processor, samples, batches=(4, 8, 16), rounds=args.rounds)
    encoded = prompts(model, processor, 16)
    batch = useful_batch(profile, max(encoded.num_text), max(encoded.num_visual))
    encoded = prompts(model, processor, batch)
    for budget in (0.3, 0.5):
        pruner = planned(model, budget)
        implied = count_flops(model, encoded, None) / count_flops(model, encoded, pruner)
        found = speedups(model, [encoded], [pruner], args.rounds)[0]
        figures[f"ttft_speedup_vs_implied.{100 * budget:.0f}"] = Figure(found / implied, "higher", 0.7, "ratio")
    errors, held = compare_predictions(model, prompts(model, processor, 8), profile, args, args.rounds)
    return figures | error_figures(errors, held, ""), {"demo_batch": batch, "errors": errors}


def large_prompt(side: int) -> Encoded:
    """A prompt with side * side visual tokens, whose picture is encoded already."""
    own = ("use_cache", "logits_to_keep")
    x = {name: value for name, value in prefill.inputs(side).items() if name not in own}
    return Encoded(("large",), x, None, (side**2,), (prefill.TEXT,), (0,))


def large(args: Any) -> Part:
    """Layers of Qwen2.5-VL-3B's size: what is saved, with the predictor and its solve inside.

    Of one thread, in time of the processor: a prefill takes seconds, in which other work on the machine would enter it.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    model, encoded = prefill.build(args.seed, prefill.LAYERS), large_prompt(LARGE_SIDE)
    price, size = cost.get("exact", model.config), cost.Workload(encoded.num_text, encoded.num_visual)
    kinds = ("single", "multi-step")
    pruners = [planned(model, SHARE, kind) for kind in kinds]
    found = speedups(model, [encoded], pruners, args.rounds, clock=time.process_time)
    figures: dict[str, Figure] = {}
    details: dict[str, Any] = {"layers": prefill.LAYERS, "text": prefill.TEXT, "visual": encoded.num_visual[0]}
    for kind, pruner, faster in zip(kinds, pruners, found, strict=True):
        with pruner(model):
            model(**encoded.inputs)
            counts = pruner.token_counts(model)
        spent = float(price.fraction_of_counts(counts, size)[0])
        figures[f"speedup_vs_flops.{kind}"] = Figure(faster * spent, "higher", 0.97, "ratio")
        details[kind] = {"speedup": faster, "flops": spent, "counts": counts[0].tolist()}
    torch.set_num_threads(threads)
    return figures, details


def large_errors(args: Any) -> Part:
    """Layers of Qwen2.5-VL-3B's size: what is predicted."""
    model, encoded = prefill.build(args.seed, LARGE_LAYERS), large_prompt(LARGE_SIDE)
    profile = profile_prompts(model, {1: encoded}, tokens=10, rounds=LARGE_ROUNDS)
    errors, held = compare_predictions(model, encoded, profile, args, LARGE_ROUNDS, warm=False)
    details = {"layers": LARGE_LAYERS, "visual": encoded.num_visual[0], "text": prefill.TEXT, "errors": errors}
    return error_figures(errors, held, ".large"), details


def error_figures(errors: Sequence[float], held: float, where: str) -> dict[str, Figure]:
    return {
        f"time_error{where}.p50": Figure(quantile(sorted(errors), 0.5), "lower", 0.05, "fraction"),
        f"time_error{where}.p95": Figure(quantile(sorted(errors), 0.95), "lower", 0.12, "fraction"),
        f"ms_budget_held{where}": Figure(held, "higher", 0.95, "fraction"),
    }


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--schedules", type=int, default=20, help="on which predictions are compared")
    parser.add_argument(
        "--part", choices=(*PARTS, "none"), help="only this one; default: all; none: join what is there"
    )
    parser.add_argument(
        "--parts", type=Path, default=Path("parts"), help="the folder in which parts wait for the others"
    )
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    args.parts.mkdir(parents=True, exist_ok=True)
    jobs: dict[str, Callable[[], Part]] = {name: lambda name=name: slowest(name, args) for name in MODELS}  # type: ignore[misc]
    jobs |= {"demo": lambda: demo(args), "large": lambda: large(args), "large-errors": lambda: large_errors(args)}
    for name in PARTS if args.part is None else set(PARTS) & {args.part}:
        figures, details = jobs[name]()
        details = {"rounds": args.rounds, **details}
        found = {"figures": {key: asdict(figure) for key, figure in figures.items()}, "details": details}
        (args.parts / f"time-{name}.json").write_text(json.dumps(found))
        print(name, {key: round(figure.value, 3) for key, figure in figures.items()}, file=sys.stderr, flush=True)
    files = {name: args.parts / f"time-{name}.json" for name in PARTS}
    parts = {name: json.loads(path.read_text()) for name, path in files.items() if path.exists()}
    joined = {key: Figure(**figure) for part in parts.values() for key, figure in part["figures"].items()}
    about = {name: part["details"] for name, part in parts.items()}
    write("time", joined, {"threads": torch.get_num_threads(), **about}, args.seed)


def compare_predictions(
    model: Any, encoded: Encoded, profile: Any, args: Any, rounds: int, *, warm: bool = True
) -> tuple[list[float], float]:
    """Relative errors over random schedules that no profile was fitted to, and how often a budget of time is held.

    Budgets are fractions of the unpruned prefill's time, measured in the same round: milliseconds without the machine's drift.
    """
    generator = torch.Generator().manual_seed(args.seed)
    layers = len(family_of(model).layers(model))
    price, kernel = profile.cost(len(encoded.num_visual)), kernels.get("single")
    whole = predict_batch(price, Schedule.full(layers).counts(encoded.num_visual), encoded.num_text, encoded.num_visual)
    errors, within = [], []
    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, {"XDG_CACHE_HOME": folder}):
        profile.save()
        for _ in range(args.schedules):
            heights = torch.rand(2, generator=generator).sort(descending=True).values.tolist()
            places = (torch.randperm(layers - 1, generator=generator)[:2] + 1).sort().values.tolist()
            schedule = Schedule.stages(dict(zip(places, heights, strict=True)), layers)
            share = round(0.5 + 0.45 * float(torch.rand(1, generator=generator)), 2)
            shape = static_shape(kernel.initial(layers, layer=places[0], r=heights[0]))
            timed = MeasuredPlanner(
                cost.Budget.of(f"{share}t"), lambda _, shape=shape: shape, kernel, profile.dimensions
            )
            predicted = predict_batch(price, schedule.counts(encoded.num_visual), encoded.num_text, encoded.num_visual)
            fixed, planned = Pruner("fastv", schedule), Pruner("fastv", timed)
            ratios: list[tuple[float, float]] = []
            for _round in range(rounds):
                unpruned, one, two = (
                    language_seconds(model, encoded, each, warm=warm) for each in (None, fixed, planned)
                )
                ratios.append((one / unpruned, two / unpruned))
            measured, spent = (statistics.median(column) for column in zip(*ratios, strict=True))
            errors.append(abs(predicted / whole / measured - 1))
            within.append(spent <= 1.03 * share)
    return errors, sum(within) / len(within)


if __name__ == "__main__":
    main()
