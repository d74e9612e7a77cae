"""Searches side by side: the accuracy that each reached within the budget, against what it cost to find."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vispco.plots import style
from vispco.rivals.comparison_views import SearchCostInfo

FREE = 3.0  # what cost nothing stands so many times left of the cheapest


def axis_positions(costs: Sequence[float]) -> list[float]:
    """Costs for a logarithmic axis: a search that cost nothing stands at its left end."""
    paid = [cost for cost in costs if cost > 0]
    least = min(paid, default=1.0) / FREE
    return [cost if cost > 0 else least for cost in costs]


def draw_searches(info: SearchCostInfo, path: str | Path) -> Path:
    """Left by FLOPs, in unpruned prompts; right by seconds. Bars are 95 % intervals, the line is the unpruned model."""
    with style.canvas(path, size=(10.0, 4.2), columns=2) as axes:
        for plot, costs, label in (
            (axes[0, 0], info.relative, "FLOPs of the search, in unpruned prompts"),
            (axes[0, 1], info.seconds, "seconds of the search"),
        ):
            _points(plot, info, axis_positions(costs))
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
