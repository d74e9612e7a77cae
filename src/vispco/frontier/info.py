"""What a plot of a frontier shows, as numbers; drawing it is the report's affair."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vispco.frontier.frontier import Frontier


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
