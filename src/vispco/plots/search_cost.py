"""The best accuracy within a budget, against the time that was spent to find it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from vispco.frontier import Frontier
from vispco.plots import style
from vispco.report.progress import in_order


@dataclass(frozen=True)
class BestSoFarInfo:
    """By label: seconds spent, and the best accuracy so far; ascending, the last one repeated at the end."""

    budget: float
    lines: tuple[tuple[str, tuple[float, ...], tuple[float, ...]], ...]


def search_cost_info(
    swept: Mapping[str, Frontier], searched: Mapping[str, tuple[Frontier, float]] | None = None, budget: float = 0.5
) -> BestSoFarInfo:
    """Sweeps step by step, in the order of their plans; searches as the one point (frontier, seconds) that they end in.

    Sweeps that do not tell their order or time, and runs with nothing within the budget, are left out.
    """
    lines: list[tuple[str, tuple[float, ...], tuple[float, ...]]] = []
    for label, frontier in swept.items():
        spent, best, seconds, reached = 0.0, -1.0, [], []
        for point in in_order(frontier) or ():
            spent += point.evaluation.seconds
            if frontier.cost(point) <= budget and point.accuracy > best:
                best = point.accuracy
                seconds.append(spent)
                reached.append(best)
        if spent > 0 and reached:
            lines.append((label, (*seconds, spent), (*reached, best)))
    for label, (frontier, spent) in (searched or {}).items():
        within = [point.accuracy for point in frontier if frontier.cost(point) <= budget]
        if within:
            lines.append((label, (spent,), (max(within),)))
    return BestSoFarInfo(budget, tuple(lines))


def draw_search_cost(info: BestSoFarInfo, path: str | Path) -> Path:
    with style.canvas(path) as axes:
        plot = axes[0, 0]
        for place, (label, seconds, accuracy) in enumerate(info.lines):
            look = place % len(style.COLOURS)
            plot.plot(
                seconds,
                accuracy,
                color=style.COLOURS[look],
                linestyle=style.LINES[look],
                marker=style.MARKERS[look],
                markersize=8 if len(seconds) == 1 else 3.5,
                drawstyle="steps-post",
                label=label,
            )
        style.log_axis(plot.xaxis)
        plot.set_xlabel("seconds of search")
        plot.set_ylabel(f"best accuracy within {info.budget:.0%}")
        style.percent_axis(plot.yaxis)
        if info.lines:
            style.legend(plot, [(label, place) for place, (label, _, _) in enumerate(info.lines)])
    return Path(path)
