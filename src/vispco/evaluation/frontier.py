"""`Frontier`: evaluated schedules, those that nothing beats, and hypervolume.

Less cost is better, more accuracy is better. `tests/evaluation/frontier` holds the measures against moocore.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vispco.core.errors import InvalidInputError, parsing
from vispco.core.runs import files
from vispco.core.schedule import Schedule
from vispco.evaluation.result import Evaluation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_UNITS = ("fraction", "flops", "seconds")


@dataclass(frozen=True)
class Axis:
    """The cost axis: `exact` (fraction of the unpruned model), `paper:flops`, or `seconds` (measured)."""

    model: str = "exact"
    unit: str = "fraction"

    def __post_init__(self) -> None:
        if self.unit not in _UNITS:
            raise InvalidInputError(f"A cost axis is measured in one of {', '.join(_UNITS)}; {self.unit!r} was given.")

    @classmethod
    def parse(cls, text: str | Axis) -> Axis:
        """`exact`, `paper`, `exact:flops`, `paper:fraction` or `seconds`."""
        if isinstance(text, Axis):
            return text
        if text == "seconds":
            return cls("measured", "seconds")
        model, _, unit = text.partition(":")
        return cls(model, unit or "fraction")

    def __str__(self) -> str:
        return "seconds" if self.unit == "seconds" else f"{self.model}:{self.unit}"

    def of(self, evaluation: Evaluation) -> float:
        """The cost of an evaluation on this axis."""
        if self.unit == "seconds":
            return evaluation.seconds
        known = evaluation.fraction if self.unit == "fraction" else evaluation.flops
        if self.model not in known:
            raise InvalidInputError(
                f"This evaluation holds no {self.unit} of the cost model {self.model!r}; it holds {sorted(known)}."
            )
        return known[self.model]


_Values = NDArray[np.float64]  # [n, 2]: cost, accuracy


def _nondominated(values: _Values) -> NDArray[np.bool_]:  # [n, 2] -> [n]
    """Which points no other point beats: as good in both and better in one. Equal points all stay."""
    order = np.lexsort((-values[:, 1], values[:, 0]))
    cost, accuracy = values[order].T
    _, first, group = np.unique(cost, return_index=True, return_inverse=True)  # points of equal cost
    top = accuracy[first]
    cheaper = np.maximum.accumulate(np.concatenate([[-np.inf], top]))[:-1]  # the best of everything strictly cheaper
    keep = np.empty(len(values), dtype=bool)
    keep[order] = (accuracy == top[group]) & (top > cheaper)[group]
    return keep


def hypervolume(values: _Values, reference: tuple[float, float]) -> float:
    """The area that the points dominate, bounded by `reference` (the worst cost and accuracy that still count)."""
    worst_cost, worst_accuracy = reference
    inside = values[(values[:, 0] < worst_cost) & (values[:, 1] > worst_accuracy)]
    area, floor = 0.0, worst_accuracy
    for cost, accuracy in inside[np.lexsort((-inside[:, 1], inside[:, 0]))]:
        if accuracy > floor:
            area += (worst_cost - cost) * (accuracy - floor)
            floor = accuracy
    return float(area)


@dataclass(frozen=True)
class Point:
    """A schedule, what its evaluation found, and its provenance (study, trial, seed, ...); never NaN or infinite.

    mean_of: 0 where the schedule itself was evaluated. A planner gives each sample a schedule of its own: then so many
        samples were planned for, `schedule` is the mean of their retentions, and no sample ran it.
    """

    schedule: Schedule
    evaluation: Evaluation
    provenance: Mapping[str, Any] = field(default_factory=dict)
    mean_of: int = 0

    def __post_init__(self) -> None:
        found = self.evaluation
        names = ("accuracy", "low", "high", "seconds", "kl")
        numbers = {name: value for name in names if (value := getattr(found, name)) is not None}
        numbers |= {f"flops[{k}]": v for k, v in found.flops.items()}
        numbers |= {f"fraction[{k}]": v for k, v in found.fraction.items()}
        for name, value in numbers.items():
            if not math.isfinite(value):
                raise InvalidInputError(
                    f"The {name} of the point {self.name} is {value}; a frontier takes finite numbers only."
                )

    @property
    def name(self) -> str:
        """What an error calls this point: its provenance where there is one, else its schedule."""
        if self.provenance:
            return ", ".join(f"{key}={value}" for key, value in sorted(self.provenance.items()))
        return str(self.schedule)

    @property
    def accuracy(self) -> float:
        return self.evaluation.accuracy

    @property
    def low(self) -> float:
        return self.evaluation.low

    @property
    def high(self) -> float:
        return self.evaluation.high

    @property
    def kl(self) -> float | None:
        return self.evaluation.kl

    @property
    def cost(self) -> dict[str, dict[str, float]]:
        """By cost model: FLOPs, and their fraction of the unpruned model's."""
        flops, fraction = self.evaluation.flops, self.evaluation.fraction
        return {
            model: {unit: known[model] for unit, known in (("flops", flops), ("fraction", fraction)) if model in known}
            for model in sorted({*flops, *fraction})
        }

    @property
    def key(self) -> str:
        """The whole point as text: equal points have equal keys."""
        return json.dumps(self.to_dict(), sort_keys=True)

    def to_dict(self) -> dict[str, Any]:
        found = {
            "schedule": self.schedule.to_dict(),
            "evaluation": self.evaluation.to_dict(),
            "provenance": dict(self.provenance),
        }
        return {**found, "mean_of": self.mean_of} if self.mean_of else found

    @classmethod
    @parsing("a point of a frontier")
    def from_dict(cls, data: Mapping[str, Any]) -> Point:
        """From `to_dict`. Versions before 0.1 did not say of a search's points that they are means: the solver tells."""
        evaluation, provenance = Evaluation.from_dict(data["evaluation"]), dict(data.get("provenance", {}))
        planned = sum(task.n for task in evaluation.tasks) if "solver" in provenance else 0
        return cls(Schedule.from_dict(data["schedule"]), evaluation, provenance, int(data.get("mean_of", planned)))


FORMAT = "vispco-frontier"
VERSION = 1


class Frontier:
    """Every evaluated point, sorted by cost, and the subset that no other point beats on (cost, accuracy).

    The order does not depend on the order in which points arrived, and equal points are kept once: two sweeps that
    evaluated the same configurations hold equal frontiers. It is not changed once made.
    """

    def __init__(self, points: Iterable[Point] = (), *, axis: str | Axis = "exact") -> None:
        self.axis = Axis.parse(axis)
        unique = {point.key: point for point in points}
        ranked = sorted(unique.items(), key=lambda item: (self.cost(item[1]), -item[1].accuracy, item[0]))
        self.points: tuple[Point, ...] = tuple(point for _, point in ranked)
        optimal = _nondominated(self.values)
        self.front: tuple[Point, ...] = tuple(p for p, good in zip(self.points, optimal, strict=True) if good)

    def cost(self, point: Point) -> float:
        """The point's cost on this frontier's axis."""
        return self.axis.of(point.evaluation)

    @property
    def values(self) -> _Values:
        """Cost and accuracy of every point: [n, 2]."""
        return np.array([(self.cost(p), p.accuracy) for p in self.points], dtype=np.float64).reshape(-1, 2)

    def __len__(self) -> int:
        return len(self.points)

    def __iter__(self) -> Iterator[Point]:
        return iter(self.points)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Frontier):
            return NotImplemented
        return self.axis == other.axis and [p.key for p in self] == [p.key for p in other]

    __hash__ = None  # type: ignore[assignment]  # equality is by content, and the content is large

    def __repr__(self) -> str:
        return f"Frontier({len(self)} points, {len(self.front)} optimal, axis={str(self.axis)!r})"

    def on(self, axis: str | Axis) -> Frontier:
        """The same points on another cost axis."""
        return Frontier(self.points, axis=axis)

    def merge(self, *others: Frontier) -> Frontier:
        """All points of all frontiers, on this one's axis."""
        return Frontier([*self, *(point for other in others for point in other)], axis=self.axis)

    def pick(self, budget: float) -> Point:
        """The most accurate point that costs at most `budget`; of equals, the cheapest."""
        if not self.points:
            raise InvalidInputError("This frontier has no points, so there is nothing to pick; run a sweep first.")
        affordable = [point for point in self.points if self.cost(point) <= budget]
        if not affordable:
            raise InvalidInputError(
                f"No point costs at most {budget:g} ({self.axis}); the cheapest costs {self.cost(self.points[0]):.6g}. "
                "Ask for a larger budget, or sweep smaller schedules."
            )
        return max(affordable, key=lambda point: point.accuracy)  # the first of equals: points are sorted by cost

    def hypervolume(self, reference: tuple[float, float] | None = None) -> float:
        """The area dominated up to `reference` = (worst cost, worst accuracy); (1, 0) where cost is a fraction."""
        if reference is None and self.axis.unit != "fraction":
            raise InvalidInputError(f"A hypervolume in {self.axis} needs a reference: (worst cost, worst accuracy).")
        return hypervolume(self.values, reference or (1.0, 0.0))

    def hypervolume_ratio(self, other: Frontier, reference: tuple[float, float] | None = None) -> float:
        """This hypervolume over that of `other` (say, of the exhaustive sweep)."""
        whole = other.on(self.axis).hypervolume(reference)
        if whole <= 0:
            raise InvalidInputError("The other frontier dominates no area, so there is no ratio to it.")
        return self.hypervolume(reference) / whole

    def to_dict(self) -> dict[str, Any]:
        return {"axis": str(self.axis), "points": [point.to_dict() for point in self]}

    @classmethod
    @parsing("a frontier")
    def from_dict(cls, data: dict[str, Any]) -> Frontier:
        return cls([Point.from_dict(point) for point in data["points"]], axis=data.get("axis", "exact"))

    def save(self, path: str | Path) -> None:
        """Write one JSON file, whole or not at all."""
        files.write_json(path, {"format": FORMAT, "version": VERSION, **self.to_dict()})

    @classmethod
    def load(cls, path: str | Path) -> Frontier:
        data = files.read_json(path, what="frontier", remedy="A frontier file is written by Frontier.save.")
        if not isinstance(data, dict) or data.get("format") != FORMAT or not isinstance(data.get("points"), list):
            raise InvalidInputError(
                f'{path} is JSON, but not a frontier: it has no "format": "{FORMAT}" with "points".'
            )
        try:
            return cls.from_dict(data)
        except InvalidInputError as error:
            raise InvalidInputError(f"{path}: {error}") from error


@dataclass(frozen=True)
class FrontierInfo:
    """Columns of equal length, cheapest first; `steps` is the frontier as the corners of a staircase."""

    axis: str
    cost: tuple[float, ...]
    accuracy: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    optimal: tuple[bool, ...]
    labels: tuple[str, ...]
    steps: tuple[tuple[float, float], ...]


def frontier_info(frontier: Frontier) -> FrontierInfo:
    """The data of a plot of cost against accuracy."""
    front = {id(point) for point in frontier.front}
    corners: list[tuple[float, float]] = []
    for corner in dict.fromkeys((frontier.cost(point), point.accuracy) for point in frontier.front):
        corners += [(corner[0], corners[-1][1]), corner] if corners else [corner]
    rows = [
        (frontier.cost(point), point.accuracy, point.low, point.high, id(point) in front, point.name)
        for point in frontier.points
    ]
    cost, accuracy, low, high, optimal, labels = zip(*rows, strict=True) if rows else ((),) * 6
    return FrontierInfo(str(frontier.axis), cost, accuracy, low, high, optimal, labels, tuple(corners))
