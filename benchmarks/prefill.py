"""Is a pruned prefill as much faster as its FLOPs say? On layers of Qwen2.5-VL-3B's dimensions, with random weights.

All times are of one run, interleaved; figures are medians of the ratios of its rounds. Peak memory is read off fresh processes.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Self

import torch

from figures import Figure, write
from vispco import Pruner, Schedule, cost, kernels
from vispco.engine.passes import PruningPass
from vispco.families import family_of
from vispco.scorers.cost import scoring_flops
from vispco.timing.large_layers import build_large_layers, large_inputs

SIDE, TEXT, LAYERS, BUDGET = 32, 64, 6, 0.5
VISUAL = SIDE * SIDE
SCORERS = ("fastv", "sparsevlm", "fitprune")


def build(seed: int, layers: int = LAYERS) -> Any:
    return build_large_layers(layers, seed)


def inputs(side: int = SIDE) -> dict[str, Any]:
    return large_inputs(side)


def schedules(model: Any) -> dict[str, Schedule]:
    exact = cost.get("exact", model.config)
    found = {}
    for name, start in (("single", {"layer": 1, "r": 0.5}), ("multi-step", {"k": 5.0, "r": 0.2})):
        kernel = kernels.get(name)
        gamma = {"gamma": torch.inf} if kernel.annealable else {}
        params = kernel.initial(LAYERS, **start)
        found[name] = cost.schedule_for_budget(
            kernel, params, BUDGET, cost.Workload(TEXT, VISUAL), exact, fill=False, **gamma
        )
    return found


@torch.no_grad()
def timed(model: Any, x: dict[str, Any], pruner: Pruner | None) -> float:
    with nullcontext() if pruner is None else pruner(model):
        start = time.perf_counter()
        model(**x)
        return time.perf_counter() - start


class ScoringClock:
    """Adds up the time that a pass spends on choosing tokens."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.original = PruningPass.decide

    def __enter__(self) -> Self:
        original = self.original

        def decide(this: PruningPass, *args: Any) -> None:
            start = time.perf_counter()
            original(this, *args)
            self.seconds += time.perf_counter() - start

        PruningPass.decide = decide  # type: ignore[method-assign]
        return self

    def __exit__(self, *_: object) -> None:
        PruningPass.decide = self.original  # type: ignore[method-assign]


def peak_memory(which: str, seed: int) -> int:
    """Bytes by which one prefill raises the peak of a fresh process."""
    model, x = build(seed), inputs()
    torch.manual_seed(seed)
    scorer, _, plan = which.partition("/")
    pruner = Pruner(scorer, schedules(model)[plan]) if plan else None
    small = {**x, "input_ids": x["input_ids"][:, VISUAL:], "attention_mask": x["attention_mask"][:, VISUAL:]}
    small = {k: v for k, v in small.items() if k in ("input_ids", "attention_mask", "logits_to_keep")}
    small["input_ids"] = small["input_ids"].clamp(min=20)
    with torch.no_grad():
        model(**small)  # kernels, thread pools
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak of building the model
    before = resident("VmRSS")
    timed(model, x, pruner)
    return resident("VmHWM") - before


def resident(field: str) -> int:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) * 1024


def measure_peak(which: str, seed: int) -> int:
    command = [sys.executable, __file__, "--peak", which, "--seed", str(seed)]
    return int(json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)["bytes"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--peak", help="only print the peak memory of one configuration (used by the benchmark itself)")
    args = parser.parse_args()
    if args.peak:
        print(json.dumps({"bytes": peak_memory(args.peak, args.seed)}))
        return
    model, x = build(args.seed), inputs()
    exact, sample = cost.get("exact", model.config), cost.Workload(TEXT, VISUAL)
    plans = schedules(model)
    runs: dict[str, Pruner | None] = {
        "unpruned": None,
        "full": Pruner("fastv", Schedule.full(LAYERS)),
        **{f"fastv/{name}": Pruner("fastv", plan) for name, plan in plans.items()},
        **{f"{scorer}/multi-step": Pruner(scorer, plans["multi-step"]) for scorer in SCORERS[1:]},
    }
    times: dict[str, list[float]] = {name: [] for name in runs}
    scoring: dict[str, list[float]] = {name: [] for name in runs}
    for repeat in range(args.repeats + 1):
        for name, pruner in runs.items():
            with ScoringClock() as clock:
                seconds = timed(model, x, pruner)
            if repeat:  # the first round warms up
                times[name].append(seconds)
                scoring[name].append(clock.seconds)
        print(f"round {repeat}/{args.repeats}", file=sys.stderr, flush=True)
    median = {name: statistics.median(values) for name, values in times.items()}
    layout = family_of(model).layout(model, x)
    figures: dict[str, Figure] = {}
    details: dict[str, Any] = {"layers": LAYERS, "visual": VISUAL, "text": TEXT, "threads": torch.get_num_threads()}
    full = int(exact.full(sample))
    for name, plan in plans.items():
        flops = int(exact.price(plan.counts([VISUAL]), sample)[0])
        # Round by round, so that a machine that drifts does not compare its slow minutes with its fast ones.
        ratios = [a / b for a, b in zip(times["unpruned"], times[f"fastv/{name}"], strict=True)]
        speedup, implied = statistics.median(ratios), full / flops
        figures[f"speedup_vs_flops.{name}"] = Figure(speedup / implied, "higher", 0.92, "ratio")
        details[name] = {
            "retention": plan.retention,
            "flops_fraction": flops / full,
            "speedup": speedup,
            "implied_by_flops": implied,
        }
    paired = [b / a - 1 for a, b in zip(times["unpruned"], times["full"], strict=True)]
    figures["overhead.full_retention"] = Figure(statistics.median(paired), "lower", 0.01, "fraction")
    for scorer, bar in zip(SCORERS, (0.01, 0.03, 0.08), strict=True):
        share = statistics.median(scoring[f"{scorer}/multi-step"]) / median["unpruned"]
        figures[f"overhead.scoring.{scorer}"] = Figure(share, "lower", bar, "fraction")
        counts = plans["multi-step"].counts([VISUAL])[0].tolist()
        pruner = runs[f"{scorer}/multi-step"]
        assert pruner is not None
        details[f"scoring_flops.{scorer}"] = (
            scoring_flops(pruner.chain, exact.dimensions, counts, TEXT, layout.num_instruction[0]) / full
        )
    peaks = {which: measure_peak(which, args.seed) for which in ("unpruned", *(r for r in runs if "/" in r))}
    worst = max(peak for which, peak in peaks.items() if which != "unpruned")
    figures["peak_memory_vs_unpruned"] = Figure(worst / peaks["unpruned"], "lower", 1.0, "ratio")
    cache = cost.KvBytes(exact.dimensions)
    kv = {n: float(cache.fraction_of_counts(p.counts([VISUAL]), sample)[0]) for n, p in plans.items()}
    figures["kv_bytes_vs_unpruned"] = Figure(max(kv.values()), "lower", 1.0, "ratio")
    details |= {"seconds": times, "scoring_seconds": scoring, "peak_bytes": peaks, "kv_bytes_vs_unpruned": kv}
    write("prefill", figures, details, args.seed)


if __name__ == "__main__":
    main()
