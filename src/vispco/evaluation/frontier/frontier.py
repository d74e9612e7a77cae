"""`Frontier`: evaluated schedules, and the questions one asks of them. It never plots (see `info`)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vispco.core.errors import InvalidInputError, parsing
from vispco.core.runs import files
from vispco.evaluation.frontier import measures
from vispco.evaluation.frontier.axis import Axis
from vispco.evaluation.frontier.point import Point

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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
        optimal = measures.nondominated(self.values)
        self.front: tuple[Point, ...] = tuple(p for p, good in zip(self.points, optimal, strict=True) if good)

    def cost(self, point: Point) -> float:
        """The point's cost on this frontier's axis."""
        return self.axis.of(point.evaluation)

    @property
    def values(self) -> measures.Values:
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
        return measures.hypervolume(self.values, self._reference(reference))

    def hypervolume_ratio(self, other: Frontier, reference: tuple[float, float] | None = None) -> float:
        """This hypervolume over that of `other` (say, of the exhaustive sweep)."""
        whole = other.on(self.axis).hypervolume(reference)
        if whole <= 0:
            raise InvalidInputError("The other frontier dominates no area, so there is no ratio to it.")
        return self.hypervolume(reference) / whole

    def igd_plus(self, other: Frontier) -> float:
        """The mean distance by which this frontier falls short of `other`'s front; 0 where it covers it."""
        mine, theirs = self._comparable(other)
        return measures.igd_plus(mine, theirs) if len(mine) else math.inf

    def additive_epsilon(self, other: Frontier) -> float:
        """The least ε to be given to each point to match `other`'s front; negative where this one is better."""
        mine, theirs = self._comparable(other)
        return measures.additive_epsilon(mine, theirs) if len(mine) else math.inf

    def to_dict(self) -> dict[str, Any]:
        return {"axis": str(self.axis), "points": [point.to_dict() for point in self]}

    @classmethod
    @parsing("a frontier")
    def from_dict(cls, data: dict[str, Any]) -> Frontier:
        return cls([Point.from_dict(point) for point in data["points"]], axis=data.get("axis", "exact"))

    def save(self, path: str | Path) -> None:
        """Write one JSON file, whole or not at all."""
        write(self.to_dict(), Path(path))

    @classmethod
    def load(cls, path: str | Path) -> Frontier:
        data = read(Path(path))
        try:
            return cls.from_dict(data)
        except (KeyError, TypeError) as error:
            raise InvalidInputError(f"A point of {path} lacks what a point needs: {error}.") from error

    def _reference(self, reference: tuple[float, float] | None) -> tuple[float, float]:
        if reference is not None:
            return reference
        if self.axis.unit != "fraction":
            raise InvalidInputError(f"A hypervolume in {self.axis} needs a reference: (worst cost, worst accuracy).")
        return (1.0, 0.0)

    def _comparable(self, other: Frontier) -> tuple[measures.Values, measures.Values]:
        """Both fronts as [n, 2]; a cost that is no fraction is divided by `other`'s dearest, to weigh as accuracy."""
        theirs = other.on(self.axis)
        if not theirs.front:
            raise InvalidInputError("The other frontier has no points, so there is no distance to it.")
        scale = 1.0 if self.axis.unit == "fraction" else max(theirs.cost(p) for p in theirs.front) or 1.0
        mine, target = (
            np.array([(f.cost(p) / scale, p.accuracy) for p in f.front]).reshape(-1, 2) for f in (self, theirs)
        )
        return mine, target


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
    points = frontier.points
    front = {id(point) for point in frontier.front}
    corners: list[tuple[float, float]] = []
    for point in frontier.front:
        corner = (frontier.cost(point), point.accuracy)
        if corners and corner != corners[-1]:
            corners.append((corner[0], corners[-1][1]))
        if not corners or corner != corners[-1]:
            corners.append(corner)
    return FrontierInfo(
        axis=str(frontier.axis),
        cost=tuple(frontier.cost(p) for p in points),
        accuracy=tuple(p.accuracy for p in points),
        low=tuple(p.low for p in points),
        high=tuple(p.high for p in points),
        optimal=tuple(id(p) in front for p in points),
        labels=tuple(p.name for p in points),
        steps=tuple(corners),
    )


def write(data: dict[str, Any], path: Path) -> None:
    """Write the file whole or not at all."""
    files.write_json(path, {"format": FORMAT, "version": VERSION, **data})


def read(path: Path) -> dict[str, Any]:
    """The file's content; keys that this version does not know are left in it."""
    data = files.read_json(path, what="frontier", remedy="A frontier file is written by Frontier.save.")
    if not isinstance(data, dict) or data.get("format") != FORMAT or not isinstance(data.get("points"), list):
        raise InvalidInputError(f'{path} is JSON, but not a frontier: it has no "format": "{FORMAT}" with "points".')
    return data
