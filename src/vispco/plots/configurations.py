"""Every configuration of a sweep, its frontier, and the searched frontier beside it (the paper's first figure)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from vispco.frontier import Frontier, FrontierInfo, frontier_info
from vispco.plots import style


@dataclass(frozen=True)
class ConfigurationsInfo:
    """What is shown; either may be missing. Both are on the same axis."""

    empirical: FrontierInfo | None
    searched: FrontierInfo | None

    @property
    def axis(self) -> str:
        shown = self.empirical or self.searched
        return shown.axis if shown else ""


def configurations_info(empirical: Frontier | None, searched: Frontier | None = None) -> ConfigurationsInfo:
    axis = next((f.axis for f in (empirical, searched) if f is not None), "exact")
    return ConfigurationsInfo(*(None if f is None else frontier_info(f.on(axis)) for f in (empirical, searched)))


def draw_configurations(info: ConfigurationsInfo, path: str | Path) -> Path:
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
