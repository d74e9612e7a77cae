"""A run's folder with invented results, written by the package's own classes: for tests and for looking at the page."""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from vispco.compare.searches.search_comparison import Comparison, Reached, Row
from vispco.core.schedule import Schedule
from vispco.cost import Dimensions, Workload, get
from vispco.data import dataset
from vispco.data.files.sampling import equalise_areas
from vispco.evaluation import Evaluation, TaskResult
from vispco.evaluation.frontier import Frontier, Point
from vispco.evaluation.frontier_tables import cheapest_near
from vispco.evaluation.survivors import data_uri
from vispco.report.examples import pack
from vispco.report.payload import Example, ExampleState
from vispco.report.run_files import save_examples
from vispco.search.bill import FlopsBill

LAYERS, TEXT, VISUAL, ITEMS = 12, 24, 144, 256
SIZE = Dimensions(
    num_layers=LAYERS,
    hidden=96,
    heads=4,
    kv_heads=2,
    head_dim=24,
    ffn=256,
    gated=True,
    windows=(None,) * LAYERS,
    vocab=256,
    dtype_bytes=4,
)
COSTS = {name: get(name, SIZE) for name in ("exact", "paper")}
BUDGETS = tuple(round(0.1 + 0.05 * k, 2) for k in range(17))


def evaluate(schedule: Schedule, seed: int, skill: float = 1.0) -> Evaluation:
    """A made-up landscape: early layers need tokens most, late ones hardly."""
    r = schedule.tensor()
    need = torch.tensor([math.exp(-i / 3.2) for i in range(LAYERS)], dtype=torch.float64)
    damage = float((need * (1 - r) ** 1.6).sum() / need.sum())
    noise = np.random.default_rng(seed).normal(0, 0.006)
    accuracy = float(np.clip(0.942 - 0.62 * damage**1.15 / skill + noise, 0.1, 0.96))
    tasks = [
        TaskResult.from_scores(name, [1.0] * round(ITEMS * accuracy) + [0.0] * (ITEMS - round(ITEMS * accuracy)))
        for name in ("counting", "word", "chart", "position")
    ]
    fraction = {name: float(cost.fraction(r, Workload(TEXT, VISUAL))) for name, cost in COSTS.items()}
    flops = {name: float(cost.relaxed(r, Workload(TEXT, VISUAL))) for name, cost in COSTS.items()}
    seconds = ITEMS * 4 * (0.0021 + 0.0062 * fraction["exact"])
    return Evaluation.from_tasks(tasks, flops=flops, fraction=fraction, kl=2.4 * damage**1.3, seconds=seconds)


@cache
def searched(kernel: str = "multi-step", skill: float = 1.0) -> Frontier:
    """Curves from sparse to full, as if a search had found them."""
    points = []
    for place, share in enumerate((0.02, 0.12, 0.2, 0.28, 0.36, 0.45, 0.55, 0.66, 0.78, 0.9)):
        if kernel == "linear":
            rest = [max(0.0, min(1.0, 1.7 * share * (1 - i / LAYERS) + 0.3 * share)) for i in range(1, LAYERS)]
        else:
            rest = [min(1.0, 1.9 * share)] * 3 + [share] * 4 + [0.3 * share] * (LAYERS - 8)
        schedule = Schedule((1.0, *(round(value * VISUAL) / VISUAL for value in rest)))
        points.append(Point(schedule, evaluate(schedule, 7000 + place, skill), {"budget": share}))
    whole = Schedule((1.0,) * LAYERS)
    return Frontier([*points, Point(whole, evaluate(whole, 9, skill), {"budget": 1.0})])


@cache
def swept(count: int = 120) -> Frontier:
    points = []
    for index in range(count):
        layer, keep = 1 + index % (LAYERS - 1), round(0.05 + 0.95 * ((index * 7) % 20) / 20, 3)
        schedule = Schedule.single(layer, keep, LAYERS)
        points.append(Point(schedule, evaluate(schedule, index), {"study": "grid", "config": f"grid:{index}"}))
    return Frontier(points)


def metrics(steps: int = 200) -> str:
    rng = np.random.default_rng(3)
    lines = []
    for step in range(steps):
        kl = 0.09 + 1.4 * math.exp(-step / 28) + abs(rng.normal(0, 0.02))
        record = {"step": step, "kl": kl}
        if step >= 10:
            record |= {
                "violation": 0.004 + 0.22 * math.exp(-step / 35) + abs(rng.normal(0, 0.006)),
                "w": 0.42 * (1 - math.exp(-step / 50)),
                "lambda": min(64.0, 2.0 * 1.3 ** (step // 10)),
            }
        lines.append(json.dumps(record) + "\n")
    return "".join(lines)


def example(number: int, frontier: Frontier) -> Example:
    """A drawn picture; its busy tokens live longest, as if a scorer had found them."""
    sample = dataset("test")[number]
    columns = max(6, round(12 * math.sqrt(sample.image.width / sample.image.height)))
    rows = max(6, round(VISUAL / columns))
    grey = np.asarray(sample.image.convert("L").resize((columns * 8, rows * 8)), dtype=float)
    busy = grey.reshape(rows, 8, columns, 8).std(axis=(1, 3)).ravel()
    order = (-busy + np.random.default_rng(number).normal(0, 1.5, busy.shape)).argsort().argsort()
    states = []
    for budget in BUDGETS:
        try:
            retention = frontier.pick(budget).schedule.tensor().numpy()
        except ValueError:
            continue
        counts = np.floor(retention * rows * columns + 0.5)
        depth = (order[None, :] < counts[:, None]).sum(0)
        right = budget > 0.12 + 0.07 * number
        answer = sample.answer if right else dataset("test")[number + 8].answer + " "
        states.append(ExampleState(budget, answer.strip(), pack(depth.tolist()), bool(right)))
    picture: Image.Image = sample.image.convert("RGB")
    return Example(
        id=sample.id,
        image=data_uri(picture),
        width=picture.width,
        height=picture.height,
        question=sample.question,
        reference=sample.answer,
        unpruned=sample.answer,
        rows=rows,
        columns=columns,
        layers=LAYERS,
        states=tuple(states),
        task=sample.task,
        scorer="fastv",
        unpruned_correct=True,
    )


def write_run(
    folder: Path, *, kernel: str = "multi-step", skill: float = 1.0, whole: bool = True, examples: int = 6
) -> Path:
    """Everything that a run can hold; with whole=False, a search that wrote its frontier and its settings only."""
    folder.mkdir(parents=True, exist_ok=True)
    frontier = searched(kernel, skill)
    frontier.save(folder / "frontier.json")
    config = {
        "model": "invented-vl",
        "scorer": "fastv",
        "kernel": kernel,
        "solver": "projection",
        "seed": 0,
        "search_seconds": 92.0 if whole else 131.0,
        "command": f"vispco search invented-vl --scorer fastv --kernel {kernel}",
        "versions": {"vispco": "0.0.0", "torch": "0.0", "transformers": "0.0"},
        "machine": {"cores": 2, "memory": "8 GiB"},
        "budgets": list(BUDGETS),
    }
    (folder / "config.json").write_text(json.dumps(config))
    if not whole:  # as `search` itself writes it
        config |= {"format": "vispco-search", "scorer": {"name": "fastv"}, "kernel": {"name": kernel}}
        config |= {"spent": {"forward": 1e12, "total": 3e12}, "vispco": "0.0.0"}
        (folder / "config.json").write_text(json.dumps({k: v for k, v in config.items() if k != "versions"}))
        history = [
            {"iteration": i, "kl": [0.5 / (i + 1), 0.7], "violation": [0.0, 0.1], "w": [0.0, 0.0], "lambda": [1.0, 1.0]}
            for i in range(8)
        ]
        shapes = [
            {"budget": b, "params": [0.0], "kl": 0.1, "history": [*history, {"shape": {}, "samples": 8}]}
            for b in (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
        ]
        (folder / "shapes.json").write_text(json.dumps(shapes))
        (folder / "metrics.jsonl").write_text('{"budget": 0.5, "kl": 0.1, "converged": true}\n')
        return folder
    swept().save(folder / "grid.frontier.json")
    (folder / "metrics.jsonl").write_text(metrics())
    save_examples([example(number, frontier) for number in range(examples)], folder)
    areas = np.random.default_rng(5).lognormal(11.2, 0.7, 4000)
    (folder / "areas.json").write_text(json.dumps(equalise_areas(areas.tolist(), 3000).to_dict()))
    rows = [
        {
            "configuration": "unpruned" if b == 1 else f"VisPCO {b:.0%}",
            "scorer": None if b == 1 else "cdpruner | divprune | divprune+fastv | v2drop",
            "budget": None if b == 1 else b,
            "flops": b,
            "ttft_ms": {"p50": 8.1 * b + 2.0, "p95": 9.4 * b + 2.6},
            "speedup": {"ttft": 10.1 / (8.1 * b + 2.0), "ttft_implied": 1 / b, "language": 1 / b},
            "decode_tokens_per_second": 141.0,
            "kv_bytes": int(9e5 * b),
            "parts_ms": {"vision": 1.0, "predictor": 0.1, "scoring": 0.2, "language": 8.1 * b},
        }
        for b in (1.0, near(frontier), 0.25)
    ]
    (folder / "bench.json").write_text(json.dumps({"rows": rows, "options": {"batch_size": 4}}))
    layers = frontier.points[0].schedule.num_layers
    (folder / "unpruned.json").write_text(json.dumps(evaluate(Schedule.full(layers), 0).to_dict()))
    comparison(frontier).save(folder / "comparison.json")
    return folder


def near(frontier: Frontier) -> float:
    """The cost of the cheapest point that loses next to nothing."""
    point = cheapest_near(frontier, evaluate(Schedule.full(LAYERS), 0).accuracy, "exact")
    return point.evaluation.fraction["exact"]


def comparison(frontier: Frontier) -> Comparison:
    """As if other searches had been given the same budget."""
    names = ("unpruned", "vtw", "fitprune", "VisPCO")
    points = (frontier.points[-1], swept().pick(0.5), frontier.points[4], frontier.pick(0.5))
    rows = tuple(
        Row(name, point.evaluation, FlopsBill(measured=1e12 * place), 20.0 * place, 10 * place, point.schedule)
        for place, (name, point) in enumerate(zip(names, points, strict=True))
    )
    return Comparison(0.5, "exact", (*rows, *frontier_rows(points)), {"scorer": "fastv"})


def frontier_rows(points: tuple[Point, ...]) -> list[Row]:
    """As if two more had been compared at several budgets: vispco's own, and one that was stopped at its bill."""
    found = []
    for name, costs, share in (("vispco", (4e12,), 1.0), ("tpe-joint", (1e12, 2e12, 4e12), 0.9)):
        reached = tuple(
            Reached(cost, cost / 1e11, tuple((b, b, share * (0.4 + b / 2 + cost / 4e13)) for b in (0.2, 0.5, 0.7)))
            for cost in costs
        )
        bill = FlopsBill(measured=costs[-1])
        found.append(Row(name, points[-1].evaluation, bill, costs[-1] / 1e11, 40, points[-1].schedule, {}, reached))
    return found
