"""Several frontiers in one picture: by model, by scorer, by kernel, by task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from vispco.errors import InvalidInputError
from vispco.frontier import Frontier, frontier_info
from vispco.plots import style


@dataclass(frozen=True)
class Line:
    """One frontier: its optimal points, and the corners of its staircase."""

    label: str
    points: tuple[tuple[float, float], ...]
    steps: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class FrontiersInfo:
    by: str
    axis: str
    lines: tuple[Line, ...]


def frontiers_info(frontiers: Mapping[str, Frontier], by: str = "run") -> FrontiersInfo:
    """All on the axis of the first. by: what the labels are, for the legend's title."""
    if not frontiers:
        raise InvalidInputError("No frontier was given. Give at least one, by its label.")
    axis = next(iter(frontiers.values())).axis
    lines = []
    for label, frontier in frontiers.items():
        placed = frontier.on(axis)
        points = tuple((placed.cost(point), point.accuracy) for point in placed.front)
        lines.append(Line(label, points, frontier_info(placed).steps))
    return FrontiersInfo(by, str(axis), tuple(lines))


def draw_frontiers(info: FrontiersInfo, path: str | Path) -> Path:
    with style.canvas(path) as axes:
        plot = axes[0, 0]
        shown = [(look, line) for look, line in enumerate(info.lines) if line.points]
        dearest = max((cost for _, line in shown for cost, _ in line.points), default=1.0)
        for look, line in shown:
            style.stairs(plot, look, [*line.steps, (dearest, line.steps[-1][1])], line.points)
        style.label_cost(plot, info.axis)
        style.percent_axis(plot.yaxis)
        plot.set_ylabel("accuracy")
        if shown:
            style.legend(plot, [(line.label, look) for look, line in shown], info.by)
    return Path(path)
