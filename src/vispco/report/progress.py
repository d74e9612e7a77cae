"""How a run got where it is: its solver's numbers step by step, and its hypervolume over the time it spent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from vispco.frontier import Frontier, Point
from vispco.frontier.measures import hypervolume
from vispco.report.payload import Convergence, Curve
from vispco.report.run_files import RunFiles

SERIES = ("kl", "violation", "w", "lambda")
MAX_LINES = 5  # a chart with more cannot be read
MAX_STEPS = 400  # more than a screen has pixels for; a longer history is thinned evenly


def convergence(run: RunFiles) -> list[Convergence]:
    """One for the run, or one for each budget where its records name one."""
    groups: dict[Any, list[dict[str, Any]]] = {}
    for shape in run.shapes:  # a static search keeps what happened beside each budget's shape
        groups[shape.get("budget")] = [record for record in shape.get("history") or () if "iteration" in record]
    groups = {budget: records for budget, records in groups.items() if len(records) > 1}
    groups = {budget: groups[budget] for budget in thinned(list(groups), MAX_LINES)}
    for record in run.metrics:
        if any(name in record for name in SERIES) and {"step", "iteration"} & {*record}:
            groups.setdefault(record.get("budget"), []).append(record)
    found = []
    for budget, records in groups.items():
        kept = thinned(records)
        steps = tuple(float(r.get("step", r.get("iteration", place))) for place, r in enumerate(kept))
        series = {name: tuple(number(r.get(name)) for r in kept) for name in SERIES}
        known = {name: values for name, values in series.items() if any(v is not None for v in values)}
        label = run.name if budget is None else f"{run.name}, {float(budget):.0%}"
        if known:
            found.append(Convergence(label, steps, known))
    return found


def thinned(records: Sequence[Any], most: int = MAX_STEPS) -> list[Any]:
    """At most so many of them, evenly, the first and the last among them."""
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


def swept_curve(label: str, frontier: Frontier) -> Curve | None:
    """Hypervolume after each configuration, over the seconds that evaluations took; None without order or times."""
    points = in_order(frontier)
    if not points or any(point.evaluation.seconds <= 0 for point in points):
        return None
    found = np.array([(frontier.cost(point), point.accuracy) for point in points])
    costs = np.cumsum([point.evaluation.seconds for point in points]).tolist()
    values = [hypervolume(found[: place + 1], (1.0, 0.0)) for place in range(len(points))]
    kept = thinned(list(zip(costs, values, strict=True)))
    return Curve(label, "empirical", tuple(c for c, _ in kept), tuple(v for _, v in kept))


def searched_curve(run: RunFiles, label: str, frontier: Frontier) -> Curve | None:
    """From the run's own records where they hold `seconds` and `hypervolume`; else its end; None if untimed."""
    told = [(number(r.get("seconds")), number(r.get("hypervolume"))) for r in run.metrics]
    pairs = [(s, v) for s, v in told if s is not None and v is not None]
    if not pairs:
        seconds = search_seconds(run)
        if seconds is None:
            return None
        pairs = [(seconds, frontier.hypervolume((1.0, 0.0)))]
    kept = thinned(pairs)
    return Curve(label, "searched", tuple(s for s, _ in kept), tuple(v for _, v in kept))


def search_seconds(run: RunFiles) -> float | None:
    """How long the search took, by its config or by its last record."""
    known = number(run.config.get("search_seconds"))
    if known is None and run.metrics:
        known = number(run.metrics[-1].get("seconds"))
    return known
