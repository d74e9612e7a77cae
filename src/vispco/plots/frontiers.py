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
        for place, line in enumerate(info.lines):
            look = place % len(style.COLOURS)
            colour = style.COLOURS[look]
            if not line.points:
                continue
            plot.plot(*zip(*line.steps, strict=True), color=colour, linestyle=style.LINES[look], linewidth=1.6)
            plot.scatter(
                *zip(*line.points, strict=True),
                s=26,
                color=colour,
                marker=style.MARKERS[look],
                edgecolors="white",
                linewidths=0.8,
                zorder=3,
                label=line.label,
            )
        style.label_cost(plot, info.axis)
        style.percent_axis(plot.yaxis)
        plot.set_ylabel("accuracy")
        plot.legend(loc="lower right", title=info.by)
    return Path(path)
