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
        for info_, name, colour, marker, line in (
            (info.empirical, "empirical", style.COLOURS[1], "s", "--"),
            (info.searched, "searched", style.COLOURS[0], "o", "-"),
        ):
            if info_ is None:
                continue
            beaten = [place for place, good in enumerate(info_.optimal) if not good]
            best = [place for place, good in enumerate(info_.optimal) if good]
            plot.scatter(
                [info_.cost[i] for i in beaten],
                [info_.accuracy[i] for i in beaten],
                s=9,
                color=colour,
                marker=marker,
                alpha=0.2,
                linewidths=0,
            )
            plot.plot(*zip(*info_.steps, strict=True), color=colour, linestyle=line, linewidth=1.6)
            plot.scatter(
                [info_.cost[i] for i in best],
                [info_.accuracy[i] for i in best],
                s=26,
                color=colour,
                marker=marker,
                edgecolors="white",
                linewidths=0.8,
                zorder=3,
                label=f"{name} frontier",
            )
        style.label_cost(plot, info.axis)
        style.percent_axis(plot.yaxis)
        plot.set_ylabel("accuracy")
        plot.legend(loc="lower right")
    return Path(path)
