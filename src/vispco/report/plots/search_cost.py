"""Accuracy within a budget, against what was spent to find it: one run over time, or several searches side by side."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vispco.compare.searches.comparison_views import SearchCostInfo
from vispco.evaluation.frontier import Frontier
from vispco.report.plots import style
from vispco.report.progress import in_order

_FREE = 3.0  # a search that cost nothing stands at the cheapest cost divided by this


@dataclass(frozen=True)
class _BestSoFarInfo:
    """By label: seconds spent, and the best accuracy so far; ascending, the last one repeated at the end."""

    budget: float
    lines: tuple[tuple[str, tuple[float, ...], tuple[float, ...]], ...]


def search_cost_info(
    swept: Mapping[str, Frontier], searched: Mapping[str, tuple[Frontier, float]] | None = None, budget: float = 0.5
) -> _BestSoFarInfo:
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
    return _BestSoFarInfo(budget, tuple(lines))


def draw_search_cost(info: _BestSoFarInfo, path: str | Path) -> Path:
    with style.canvas(path) as axes:
        plot = axes[0, 0]
        for place, (label, seconds, accuracy) in enumerate(info.lines):
            size = 8 if len(seconds) == 1 else 3.5
            plot.plot(seconds, accuracy, **style.look_of(place), markersize=size, drawstyle="steps-post", label=label)
        style.log_axis(plot.xaxis)
        plot.set_xlabel("seconds of search")
        plot.set_ylabel(f"best accuracy within {info.budget:.0%}")
        style.percent_axis(plot.yaxis)
        if info.lines:
            style.legend(plot, [(label, place) for place, (label, _, _) in enumerate(info.lines)])
    return Path(path)


def _axis_positions(costs: Sequence[float]) -> list[float]:
    """Costs for a logarithmic axis: a search that cost nothing stands at its left end."""
    paid = [cost for cost in costs if cost > 0]
    least = min(paid, default=1.0) / _FREE
    return [cost if cost > 0 else least for cost in costs]


def draw_searches(info: SearchCostInfo, path: str | Path) -> Path:
    """Left by FLOPs, in unpruned prompts; right by seconds. Bars are 95 % intervals, the line is the unpruned model."""
    with style.canvas(path, size=(10.0, 4.2), columns=2) as axes:
        for plot, costs, label in (
            (axes[0, 0], info.relative, "FLOPs of the search, in unpruned prompts"),
            (axes[0, 1], info.seconds, "seconds of the search"),
        ):
            _points(plot, info, _axis_positions(costs))
            plot.axhline(info.full_accuracy, color=style.SOFT, linewidth=0.9, linestyle=(0, (4, 3)), label="unpruned")
            style.log_axis(plot.xaxis)
            plot.set_xlabel(label)
            style.percent_axis(plot.yaxis)
        axes[0, 0].set_ylabel(f"accuracy within {info.budget:.0%} of the FLOPs ({info.cost})")
        axes[0, 1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return Path(path)


def _points(plot: Any, info: SearchCostInfo, at: Sequence[float]) -> None:
    for place, method in enumerate(info.methods):
        look = place % len(style.COLOURS)
        colour, accuracy = style.COLOURS[look], info.accuracy[place]
        plot.errorbar(
            at[place],
            accuracy,
            yerr=[[max(0.0, accuracy - info.low[place])], [max(0.0, info.high[place] - accuracy)]],
            color=colour,
            marker=style.MARKERS[look],
            markersize=7,
            markerfacecolor=colour if place < len(style.COLOURS) else "white",
            linestyle="none",
            elinewidth=0.8,
            label=method if info.flops[place] > 0 else f"{method} (no FLOPs)",
        )
