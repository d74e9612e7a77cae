"""Frontiers in one picture: by model, scorer, kernel or task; or all configurations of a sweep (the paper's figure 1)."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from vispco.core.errors import InvalidInputError
from vispco.evaluation.frontier import Frontier, FrontierInfo, frontier_info
from vispco.report.plots import style


@dataclass(frozen=True)
class _Line:
    """One frontier: its optimal points, and the corners of its staircase."""

    label: str
    points: tuple[tuple[float, float], ...]
    steps: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class _FrontiersInfo:
    by: str
    axis: str
    lines: tuple[_Line, ...]


def frontiers_info(frontiers: Mapping[str, Frontier], by: str = "run") -> _FrontiersInfo:
    """All on the axis of the first. by: what the labels are, for the legend's title."""
    if not frontiers:
        raise InvalidInputError("No frontier was given. Give at least one, by its label.")
    axis = next(iter(frontiers.values())).axis
    lines = []
    for label, frontier in frontiers.items():
        shown = frontier.on(axis)
        points = tuple((shown.cost(point), point.accuracy) for point in shown.front)
        lines.append(_Line(label, points, frontier_info(shown).steps))
    return _FrontiersInfo(by, str(axis), tuple(lines))


def draw_frontiers(info: _FrontiersInfo, path: str | Path) -> Path:
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


@dataclass(frozen=True)
class _ConfigurationsInfo:
    """The two frontiers; either may be missing. Both are on the same axis."""

    empirical: FrontierInfo | None
    searched: FrontierInfo | None

    @property
    def axis(self) -> str:
        shown = self.empirical or self.searched
        return shown.axis if shown else ""


def configurations_info(empirical: Frontier | None, searched: Frontier | None = None) -> _ConfigurationsInfo:
    axis = next((f.axis for f in (empirical, searched) if f is not None), "exact")
    return _ConfigurationsInfo(*(None if f is None else frontier_info(f.on(axis)) for f in (empirical, searched)))


def draw_configurations(info: _ConfigurationsInfo, path: str | Path) -> Path:
    with style.canvas(path) as axes:
        plot = axes[0, 0]
        shown = [
            (name, look, one)
            for name, look, one in (("empirical frontier", 1, info.empirical), ("searched frontier", 0, info.searched))
            if one and one.cost
        ]
        dearest = max((cost for _, _, one in shown for cost in one.cost), default=1.0)
        for _, look, one in shown:
            rows = list(zip(one.cost, one.accuracy, one.optimal, strict=True))
            beaten = [(cost, accuracy) for cost, accuracy, good in rows if not good]
            if beaten:
                looks = {"color": style.COLOURS[look], "marker": style.MARKERS[look]}
                plot.scatter(*zip(*beaten, strict=True), s=10, alpha=0.22, linewidths=0, **looks)
            corners = [*one.steps, (dearest, one.steps[-1][1])]
            style.stairs(plot, look, corners, [(cost, accuracy) for cost, accuracy, good in rows if good])
        style.label_cost(plot, info.axis)
        style.percent_axis(plot.yaxis)
        plot.set_ylabel("accuracy")
        if shown:
            style.legend(plot, [(name, look) for name, look, _ in reversed(shown)])
    return Path(path)
