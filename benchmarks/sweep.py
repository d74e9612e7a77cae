"""What a sweep saves by sharing unpruned layers, what a second worker adds, and the nine full single-layer grids.

    python benchmarks/sweep.py [--samples 4] [--workers 2] [--items 24] [--again] [--only PARTS]

`shared_*`: the paper's 700 configurations (35 layers x 20 ratios) on a model of 36 layers, tiny-qwen's otherwise, with
random weights: what they cost is a matter of shapes. Once with an evaluator that shares unpruned layers between them, and
once as 700 evaluations of their own - which are given the pictures' features, too, so that the saving is in the language
model alone. FLOPs are counted by torch's FlopCounterMode on every third configuration of one sample, recording the
shared run included. Time is the processor's, of one thread, so that other work on the machine does not enter it: of every
seventh configuration on four times the samples, in turn, recording included. All 700 results are compared. The times of
all 700 on few samples, where decoding one token after another is most of the work, and those of the 180 configurations
of tiny-qwen itself are in the details.

`two_workers_vs_one`: sweeps of 24 configurations through the same queue on warm workers with one thread each, in turn
with one and with two of them; the median of the ratios, round by round.

The grids (see grids.py) are swept if they are not there yet.
"""

from __future__ import annotations

import argparse
import copy
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoModelForImageTextToText

import grids
from figures import Figure, write
from vispco import models as zoo
from vispco.core.schedule import Schedule
from vispco.data import dataset
from vispco.evaluation import Evaluation, EvaluatorSpec, FeatureStore, TaskEvaluator
from vispco.models.shipped import MEASURED
from vispco.sweep.heartbeat import Heartbeat
from vispco.sweep.pools import LocalPool
from vispco.sweep.runner import Dispatcher
from vispco.sweep.spaces import SingleSpace
from vispco.sweep.spec import SweepSpec
from vispco.sweep.study import SweepStudy, open_storage
from vispco.sweep.trial_queue import TrialQueue

MODEL, SCORER, DEEP = "tiny-qwen", "fastv", 36
BLOCK, THIRD, SEVENTH = 20, 3, 7  # the last two have no divisor in common with 20, the number of ratios
ROUNDS, CONFIGURATIONS = 3, 24


def deepened(layers: int | None) -> tuple[Any, Any]:
    """tiny-qwen, or a model of its shapes with so many layers."""
    model, processor = zoo.load(MODEL)
    if layers is None:
        return model, processor
    config = copy.deepcopy(model.config)
    text = config.text_config
    text.num_hidden_layers, text.layer_types = layers, [text.layer_types[0]] * layers
    if getattr(text, "max_window_layers", None) is not None:
        text.max_window_layers = layers
    torch.manual_seed(0)
    return AutoModelForImageTextToText.from_config(config, dtype=torch.float32).eval(), processor


def sharing(layers: int | None, count: int, say: Callable[[str], None]) -> dict[str, Any]:
    """The whole grid with and without sharing: ratios of FLOPs and of time, and whether the results are the same."""
    model, processor = deepened(layers)
    samples = list(dataset("test", limit=max(1, count // 8)))[:count]
    store = FeatureStore(model, processor)

    def evaluator(few: list[Any], share: int) -> TaskEvaluator:
        made = TaskEvaluator(model, processor, few, SCORER, store=store, share=share, batch_size=count, details=True)
        for batch in made.batches:
            store.encode(batch.samples)
        return made

    space = SingleSpace(evaluator(samples, 0).num_layers)
    schedules = [space.schedule(params) for params in space.grid()]
    blocks = [schedules[start : start + BLOCK] for start in range(0, len(schedules), BLOCK)]
    pair = {"shared": evaluator(samples, grids.SHARE), "independent": evaluator(samples, 0)}
    pair["independent"](schedules[0])  # the first pass of a process is slower than all others
    found: dict[str, list[Any]] = {name: [] for name in pair}
    seconds, cpu = dict.fromkeys(pair, 0.0), dict.fromkeys(pair, 0.0)
    for number, block in enumerate(blocks):
        for name in list(pair)[:: 1 if number % 2 else -1]:
            began, worked = time.perf_counter(), time.process_time()
            found[name] += [pair[name](schedule) for schedule in block]
            seconds[name] += time.perf_counter() - began
            cpu[name] += time.process_time() - worked
        say(f"{len(schedules)} configurations: {BLOCK * (number + 1)} done, time {ratio(seconds):.3f}")
    flops = {name: flops_of(evaluator(samples[:1], made.prefixes.memory), schedules) for name, made in pair.items()}
    same = [results(one) == results(other) for one, other in zip(*found.values(), strict=True)]
    return {
        "configurations": len(schedules),
        "samples": len(samples),
        "cost": ratio(flops),
        "time": ratio(seconds),
        "identical": sum(same),
        "flops": flops,
        "seconds": seconds,
        "cpu_time": ratio(cpu),
    }


def timed(layers: int, count: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Processor seconds of the whole grid with and without sharing, from every seventh configuration, in turn."""
    model, processor = deepened(layers)
    samples, store = list(dataset("test", limit=max(1, count // 8)))[:count], FeatureStore(model, processor)
    pair = {
        name: TaskEvaluator(model, processor, samples, SCORER, store=store, share=share, batch_size=count)
        for name, share in (("shared", grids.SHARE), ("independent", 0))
    }
    schedules = [SingleSpace(layers).schedule(params) for params in SingleSpace(layers).grid()]
    few = schedules[1::SEVENTH]

    def seconds(name: str, schedule: Schedule) -> float:
        began = time.process_time()
        pair[name](schedule)
        return time.process_time() - began

    pair["independent"](schedules[0])  # the first pass of a process is slower than all others
    first, again = seconds("shared", schedules[0]), seconds("shared", schedules[0])
    spent = dict.fromkeys(pair, 0.0)
    for number, schedule in enumerate(few):
        for name in list(pair)[:: 1 if number % 2 else -1]:
            spent[name] += seconds(name, schedule)
        if number % 10 == 0:
            say(f"{number + 1} of {len(few)}: {ratio(spent):.3f}")
    whole = {name: total * len(schedules) / len(few) for name, total in spent.items()}
    whole["shared"] += first - again  # recording the unpruned run, once
    return {"time": ratio(whole), "seconds": whole, "samples": len(samples), "timed": len(few)}


def ratio(both: dict[str, float]) -> float:
    return both["shared"] / both["independent"]


def results(found: Evaluation) -> dict[str, Any]:
    return {key: value for key, value in found.to_dict().items() if key != "seconds"}


def flops_of(evaluate: TaskEvaluator, schedules: list[Schedule]) -> float:
    """What the language model computes for all, decoding and output head included; counted on every third."""

    def counted(few: list[Schedule]) -> float:
        with FlopCounterMode(display=False) as counter:
            for schedule in few:
                evaluate(schedule)
        return float(counter.get_total_flops())

    first, again = counted(schedules[:1]), counted(schedules[:1])  # only the first of them records an unpruned run
    few = schedules[1::THIRD]
    return first - again + counted(few) * len(schedules) / len(few)


class Warm:
    """A pool that outlives a sweep."""

    def __init__(self, pool: LocalPool) -> None:
        self.pool = pool
        self.submit, self.wait = pool.submit, pool.wait

    @property
    def free(self) -> int:
        return self.pool.free

    def close(self) -> None:
        """Not yet."""


def swept(pool: Warm, layers: int, folder: Path) -> float:
    """Seconds of a sweep of some configurations, from the first claim to the last result."""
    plan = SweepSpec(space="single", strategy="random", num_layers=layers, trials=CONFIGURATIONS).plan()
    store = open_storage(None, folder)
    study = SweepStudy.open(store, "study", {"fingerprint": {}})
    with Heartbeat(study.set_attribute) as heartbeat:
        dispatch = Dispatcher(TrialQueue(study, plan, heartbeat.run), pool, folder / "frontier.json", None)
        began = time.perf_counter()
        assert len(dispatch.run()) == CONFIGURATIONS
        return time.perf_counter() - began


def workers(items: int, say: Callable[[str], None]) -> dict[str, Any]:
    """One against two, in turn."""
    spec = EvaluatorSpec(model=MODEL, scorer={"name": SCORER}, limit=items, share=grids.SHARE)
    layers = grids.layers_of(MODEL)
    pools = {count: Warm(LocalPool(spec, count)) for count in (1, 2)}
    seconds: dict[int, list[float]] = {count: [] for count in pools}
    try:
        for count, pool in pools.items():
            while pool.free < count:
                pool.wait(1.0)
        for number in range(ROUNDS + 1):
            for count in (1, 2) if number % 2 else (2, 1):
                with tempfile.TemporaryDirectory() as folder:
                    seconds[count].append(swept(pools[count], layers, Path(folder)))
            say(f"round {number}: {seconds[1][-1]:.2f} s with one worker, {seconds[2][-1]:.2f} s with two")
    finally:
        for pool in pools.values():
            pool.pool.close()
    one, two = (seconds[count][1:] for count in (1, 2))  # the first round warms up
    ratios = [a / b for a, b in zip(one, two, strict=True)]
    return {"ratio": statistics.median(ratios), "ratios": ratios, "seconds": {"one": one, "two": two}}


def part(name: str, measure: Callable[[], dict[str, Any]], *, again: bool) -> dict[str, Any]:
    """What was measured before and stopped before the end, unless it shall be measured again."""
    path = grids.RUNS / f"{name}.json"
    if again or not path.exists():
        found = measure()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(found))
    return json.loads(path.read_text())  # type: ignore[no-any-return]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=4, help="pictures of the comparison with independent runs")
    parser.add_argument("--again", action="store_true", help="measure again what an earlier run has measured")
    parser.add_argument(
        "--only", default="workers,deep,timed,own,grids", help="some of these; figures are written with all but own"
    )
    parser.add_argument("--workers", type=int, default=2, help="of the grids")
    parser.add_argument("--items", type=int, default=grids.ITEMS, help="of each task, in the grids")
    given = parser.parse_args()
    torch.set_num_threads(1)
    measures = {
        "workers": lambda: workers(2 * given.samples, print),
        "deep": lambda: sharing(DEEP, given.samples, print),
        "timed": lambda: timed(DEEP, 4 * given.samples, print),
        "own": lambda: sharing(None, 8 * given.samples, print),
    }
    chosen = given.only.split(",")
    told = {name: part(name, measure, again=given.again) for name, measure in measures.items() if name in chosen}
    if not {"workers", "deep", "timed", "grids"} <= set(chosen):
        return
    second, deep, clock = told["workers"], told["deep"], told["timed"]
    pairs = [(model, scorer) for model in MEASURED for scorer in grids.SCORERS]
    swept_grids = {pair: grids.grid(*pair, given.items, given.workers) for pair in pairs}
    grids.overview(swept_grids, grids.GRIDS / "overview.png")
    figures = {
        "shared_cost_vs_independent": Figure(deep["cost"], "lower", 0.6, "ratio"),
        "shared_time_vs_independent": Figure(clock["time"], "lower", 0.6, "ratio"),
        "identical_results": Figure(deep["identical"] / deep["configurations"], "higher", 1.0, "share"),
        "two_workers_vs_one": Figure(second["ratio"], "higher", 1.6, "ratio"),
    }
    details = {
        "sharing": {
            f"{DEEP} layers": deep,
            f"{DEEP} layers, timed": clock,
            **({MODEL: told["own"]} if "own" in told else {}),
        },
        "workers": second,
        "grids": {
            f"{model}-{scorer}": {
                "configurations": len(found),
                "optimal": len(found.front),
                "hypervolume": found.hypervolume(),
                "best_at": {str(budget): found.pick(budget).accuracy for budget in (0.3, 0.5, 0.7, 0.9)},
                **grids.about(grids.path_of(model, scorer)),
            }
            for (model, scorer), found in swept_grids.items()
        },
    }
    write("sweep", figures, details, seed=0)


if __name__ == "__main__":
    main()
