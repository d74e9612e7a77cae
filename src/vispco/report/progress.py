"""The course of a run: its solver's numbers by step, and its hypervolume by the time and FLOPs spent."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from vispco.core.errors import InvalidInputError
from vispco.evaluation.frontier import Frontier, Point, hypervolume
from vispco.report.payload import Convergence, Curve
from vispco.report.run_files import RunFiles

_SERIES = ("kl", "violation", "w", "lambda")
WHOLE = (1.0, 0.0)  # the reference of a hypervolume: the unpruned cost, no accuracy
_MAX_LINES = 5  # a chart with more cannot be read
_MAX_STEPS = 400  # more than a screen has pixels for; a longer history is thinned evenly


def convergence(run: RunFiles) -> list[Convergence]:
    """One for the run, or one for each budget where its records name one."""
    groups: dict[Any, list[dict[str, Any]]] = {}
    for shape in run.shapes:  # a static search keeps what happened beside each budget's shape
        groups[shape.get("budget")] = [record for record in shape.get("history") or () if "iteration" in record]
    groups = {budget: records for budget, records in groups.items() if len(records) > 1}
    groups = {budget: groups[budget] for budget in _thinned(list(groups), _MAX_LINES)}
    for record in run.metrics:
        if any(name in record for name in _SERIES) and {"step", "iteration"} & {*record}:
            groups.setdefault(record.get("budget"), []).append(record)
    found = []
    for budget, records in groups.items():
        kept = _thinned(records)
        steps = tuple(float(r.get("step", r.get("iteration", place))) for place, r in enumerate(kept))
        series = {name: tuple(number(r.get(name)) for r in kept) for name in _SERIES}
        known = {name: values for name, values in series.items() if any(v is not None for v in values)}
        label = run.name if budget is None else f"{run.name}, {float(budget):.0%}"
        if known:
            found.append(Convergence(label, steps, known, budget=number(budget)))
    return found


def _thinned(records: Sequence[Any], most: int = _MAX_STEPS) -> list[Any]:
    """At most `most` of them, evenly, the first and the last among them."""
    if len(records) <= most:
        return list(records)
    stride = (len(records) - 1) / (most - 1)
    return [records[round(place * stride)] for place in range(most)]


def number(value: Any) -> float | None:
    """A finite number; of a list (one value for each start or bin), the mean of those that are finite."""
    if isinstance(value, list):
        finite = [v for v in map(number, value) if v is not None]
        return sum(finite) / len(finite) if finite else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def in_order(frontier: Frontier) -> list[Point] | None:
    """A sweep's points in the order of its plan (`config`: STRATEGY:INDEX); None where they do not tell."""
    places: list[tuple[int, Point]] = []
    for point in frontier:
        _, _, index = str(point.provenance.get("config", "")).rpartition(":")
        if not index.isdigit():
            return None
        places.append((int(index), point))
    return [point for _, point in sorted(places, key=lambda pair: pair[0])]


def picked(frontier: Frontier, budget: float) -> Point | None:
    """`frontier.pick(budget)`; None where nothing is that cheap."""
    try:
        return frontier.pick(budget)
    except InvalidInputError:
        return None


def swept_curve(label: str, frontier: Frontier) -> Curve | None:
    """Hypervolume after each configuration, over what the evaluations took; None without their order."""
    points = in_order(frontier)
    if not points:
        return None
    found = np.array([(frontier.cost(point), point.accuracy) for point in points])
    values = [hypervolume(found[: place + 1], WHOLE) for place in range(len(points))]
    seconds = _running([point.evaluation.seconds for point in points])
    flops = _running([evaluation_flops(point, frontier) for point in points])
    return _curve(label, "empirical", seconds, flops, values)


def searched_curve(run: RunFiles, label: str, frontier: Frontier) -> Curve | None:
    """From the run's own records where they hold `seconds` and `hypervolume`; else its end."""
    records = [(number(r.get("seconds")), number(r.get("hypervolume"))) for r in run.metrics]
    pairs = [(s, v) for s, v in records if s is not None and v is not None]
    if pairs:
        return _curve(label, "searched", [s for s, _ in pairs], [], [v for _, v in pairs])
    seconds, flops = search_seconds(run), search_flops(run)
    end = frontier.hypervolume(WHOLE)
    return _curve(label, "searched", [seconds] if seconds else [], [flops] if flops else [], [end])


def _curve(label: str, kind: str, seconds: list[float], flops: list[float], values: list[float]) -> Curve | None:
    """None where no price is known."""
    if not seconds and not flops:
        return None
    kept = _thinned(range(len(values)))
    cost, counted = (tuple(price[place] for place in kept) if price else () for price in (seconds, flops))
    return Curve(label, kind, cost, tuple(values[place] for place in kept), counted)


def _running(prices: list[float]) -> list[float]:
    """The running sum; empty where a point has no price."""
    return np.cumsum(prices).tolist() if all(price > 0 for price in prices) else []


def evaluation_flops(point: Point, frontier: Frontier) -> float:
    """The language-model prefill of all items of an evaluation; 0 where the axis has no FLOPs."""
    items = sum(task.n for task in point.evaluation.tasks)
    return point.evaluation.flops.get(frontier.axis.model, 0.0) * items


def search_flops(run: RunFiles) -> float | None:
    """FLOPs of the search, where it counted them."""
    spent = run.config.get("spent")
    return number(spent.get("total")) if isinstance(spent, dict) else None


def search_seconds(run: RunFiles) -> float | None:
    """Seconds of the search, by its config or by its last record."""
    known = number(run.config.get("search_seconds"))
    if known is None and run.metrics:
        known = number(run.metrics[-1].get("seconds"))
    return known
