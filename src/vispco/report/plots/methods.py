"""Published methods at equal budgets: each scaled to the budget, as published, and with a search on top."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vispco.compare.methods import MethodTable
from vispco.report.plots import style

_MARGIN = 0.12  # of a budget, within which a published setting is drawn with it


@dataclass(frozen=True)
class _MethodsInfo:
    """accuracy by method, [budget]; None where it was not measured. methods: the best at the smallest budget first.

    published: (method, place of the budget next to its cost, accuracy, fraction of the FLOPs). intervals: of `scaled`.
    """

    budgets: tuple[float, ...]
    methods: tuple[str, ...]
    scaled: dict[str, tuple[float | None, ...]]
    searched: dict[str, tuple[float | None, ...]]
    published: tuple[tuple[str, int, float, float], ...]
    unpruned: float | None
    model: str = ""
    intervals: dict[str, tuple[tuple[float, float] | None, ...]] = field(default_factory=dict)


def methods_info(table: MethodTable) -> _MethodsInfo:
    """The rows of `vispco compare methods` that have an accuracy, as accuracies at budgets."""
    rows = [row for row in table.rows if row.accuracy is not None]
    budgets = tuple(sorted({row.budget for row in rows if row.kind == "scaled" and row.budget is not None}))
    found = {(row.method, row.kind, row.budget): row.accuracy for row in rows if row.kind in ("scaled", "searched")}
    names = dict.fromkeys(row.method for row in rows if row.kind == "scaled")
    by_kind = {
        kind: {name: tuple(found.get((name, kind, budget)) for budget in budgets) for name in names}
        for kind in ("scaled", "searched")
    }
    published = []
    for row in rows:
        cost, accuracy = row.fraction, row.accuracy
        if row.kind != "published" or cost is None or accuracy is None or not budgets:
            continue
        away, place = min((abs(budget - cost), place) for place, budget in enumerate(budgets))
        if away <= _MARGIN:
            published.append((row.method, place, accuracy, cost))
    ends = {
        (row.method, row.budget): (row.low, row.high)
        for row in rows
        if row.kind == "scaled" and row.low is not None and row.high is not None
    }
    order = sorted(names, key=lambda name: [-(value or 0.0) for value in by_kind["scaled"][name]])
    whole = next((row.accuracy for row in rows if row.kind == "unpruned"), None)
    return _MethodsInfo(
        budgets,
        tuple(order),
        by_kind["scaled"],
        by_kind["searched"],
        tuple(published),
        whole,
        str(table.details.get("model", "")),
        {name: tuple(ends.get((name, budget)) for budget in budgets) for name in names},
    )


def draw_methods(info: _MethodsInfo, path: str | Path) -> Path:
    """A panel for each budget and a line for each method: a dot for its accuracy, an arrow to what a search makes of it."""
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415

    size = (max(3.0 * len(info.budgets) + 1.4, 6.4), 0.23 * len(info.methods) + (1.6 if len(info.budgets) < 3 else 1.3))
    with style.canvas(path, size=size, columns=len(info.budgets)) as axes:
        for place, budget in enumerate(info.budgets):
            plot = axes[0, place]
            for line, name in enumerate(info.methods):
                own, found = info.scaled[name][place], info.searched[name][place]
                if own is not None and found is not None and abs(found - own) > 1e-9:
                    arrow = {
                        "arrowstyle": "-|>",
                        "color": style.COLOURS[1],
                        "linewidth": 1.1,
                        "shrinkA": 0,
                        "shrinkB": 0,
                    }
                    plot.annotate("", (found, line), (own, line), arrowprops=arrow)
                interval = info.intervals.get(name, (None,) * len(info.budgets))[place]
                if interval is not None:
                    plot.plot(interval, (line, line), color=style.COLOURS[0], linewidth=1.0, alpha=0.35, zorder=1)
                if own is not None:
                    plot.plot(own, line, "o", color=style.COLOURS[0], markersize=5)
            for name, at, accuracy, _ in info.published:
                if at == place and name in info.methods:
                    line = info.methods.index(name)
                    plot.plot(
                        accuracy, line, "D", markerfacecolor="none", markeredgecolor=style.COLOURS[2], markersize=6
                    )
            if info.unpruned is not None:
                plot.axvline(info.unpruned, color=style.SOFT, linewidth=0.9, linestyle=(0, (4, 3)))
            plot.set_title(f"{budget:.0%} of the FLOPs")
            plot.set_yticks(range(len(info.methods)), info.methods if place == 0 else [""] * len(info.methods))
            plot.set_ylim(len(info.methods) - 0.4, -0.6)
            plot.grid(visible=True, axis="both")
            plot.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10], min_n_ticks=2))
            style.percent_axis(plot.xaxis)
        _explain(axes[0, 0], info)
    return Path(path)


def _explain(plot: Any, info: _MethodsInfo) -> None:
    """The legend of the marks, under the figure."""
    from matplotlib.lines import Line2D  # noqa: PLC0415

    searched = any(value is not None for values in info.searched.values() for value in values)
    entries = [
        Line2D([], [], color=style.COLOURS[0], marker="o", linestyle="", label="scaled to the budget, 95 % interval"),
        *[Line2D([], [], color=style.COLOURS[1], marker=">", linewidth=1.1, label="with a search on top")] * searched,
        Line2D(
            [], [], markeredgecolor=style.COLOURS[2], markerfacecolor="none", marker="D", linestyle="",
            label="as published (near this cost)",
        ),
        Line2D([], [], color=style.SOFT, linestyle=(0, (4, 3)), label="unpruned"),
    ]  # fmt: skip
    title = f"{info.model}: accuracy" if info.model else "accuracy"
    plot.figure.legend(
        handles=entries,
        loc="outside lower left",
        ncols=2 if len(info.budgets) < 3 else 4,
        title=title,
        alignment="left",
    )
