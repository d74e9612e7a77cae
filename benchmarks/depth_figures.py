"""The paper's figures from `results/depth.json`, as small WebP files in docs/pictures: python benchmarks/depth_figures.py

Figure 1 of the paper (all configurations of the grid, and what searches found), kernels side by side, the convergence of
Algorithm 1, what each search cost, and how many tokens each layer keeps by budget.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from figures import RESULTS
from pictures import keep
from vispco.report.plots import style
from vispco.report.plots.retention import RetentionInfo, draw_retention

Parts = dict[str, Any]
NAMES = {
    "joint": "joint search (ours)",
    "table": "table predictor (ours)",
    "paper": "Algorithm 1, best kernel",
    "line-single": "line search",
    "tpe": "TPE",
    "nsga2": "NSGA-II",
    "random-n": "random",
    "evolution": "evolution strategy",
}


def label(name: str) -> str:
    """A part's name as a reader knows it."""
    named = name.replace("predictor-lagrangian-", "predictor, Algorithm 1, ").replace("lagrangian-", "Algorithm 1, ")
    named = named.replace("predictor-projection-", "predictor, projection, ").replace("projection-", "projection, ")
    return NAMES.get(name, named)


def corners(points: dict[str, list[float]]) -> list[tuple[float, float]]:
    """(FLOPs, accuracy) by FLOPs."""
    return sorted((cost, accuracy) for cost, accuracy, *_ in points.values())


def draw_lines(parts: Parts, names: list[str], path: Path, cloud: list[list[float]] | None = None) -> Path:
    """Accuracy on test items by FLOPs of several searches; behind them, all configurations on the calibration set."""
    with style.canvas(path) as axes:
        plot = axes[0, 0]
        if cloud:
            costs, accuracies = ([row[place] for row in cloud] for place in (0, 1))
            plot.scatter(costs, accuracies, s=8, color=style.SOFT, alpha=0.25, linewidths=0)
        for look, name in enumerate(names):
            part = parts[name]["accuracy"] if name == "grid" else parts[name]
            found = corners(part["points"])
            plot.plot(
                *zip(*found, strict=True),
                color=style.COLOURS[look % len(style.COLOURS)],
                marker=style.MARKERS[look % len(style.MARKERS)],
                linestyle=style.LINES[look % len(style.LINES)],
                markersize=5,
                linewidth=1.7,
            )
        style.label_cost(plot, "exact:fraction")
        style.percent_axis(plot.yaxis)
        plot.set_ylabel("accuracy")
        known = {"grid": "best of the grid"}
        style.legend(plot, [(known.get(name, label(name)), look) for look, name in enumerate(names)])
    return path


def draw_convergence(part: Parts, path: Path) -> Path:
    """Algorithm 1 by iteration: the price of the schedule minus its budget, and the KL with masked tokens."""
    with style.canvas(path, (8.0, 3.6), columns=2) as axes:
        for look, (budget, history) in enumerate(part["history"].items()):
            rows = [row for row in history if "iteration" in row]
            colour, marker = style.COLOURS[look % len(style.COLOURS)], style.MARKERS[look % len(style.MARKERS)]
            for plot, values in (
                (axes[0, 0], [row["price"][0] - float(budget) for row in rows]),
                (axes[0, 1], [row["kl"][0] for row in rows]),
            ):
                numbers = [row["iteration"] + 1 for row in rows]
                plot.plot(numbers, values, color=colour, marker=marker, label=f"{float(budget):.0%}")
        for plot, title in ((axes[0, 0], "FLOPs over the budget"), (axes[0, 1], "KL of the relaxed model")):
            plot.set_xlabel("outer iteration")
            plot.set_ylabel(title)
            plot.xaxis.get_major_locator().set_params(integer=True)
        style.percent_axis(axes[0, 0].yaxis)
        axes[0, 1].set_yscale("log")
        axes[0, 1].legend(title="budget", loc="center left", bbox_to_anchor=(1.0, 0.5))
    return path


def draw_cost(parts: Parts, path: Path) -> Path:
    """Hypervolume on test items by the FLOPs of the search, as shares of the grid's."""
    grid = max((parts["grid"][how] for how in ("accuracy", "kl")), key=lambda each: each["volume"])
    rows = [(name, part) for name, part in parts.items() if "volume" in part and "flops" in part]
    with style.canvas(path, (7.6, 4.2)) as axes:
        plot = axes[0, 0]
        for look, (name, part) in enumerate(sorted(rows, key=lambda row: -row[1]["volume"])):
            plot.scatter(
                [part["flops"] / grid["flops"]],
                [part["volume"] / grid["volume"]],
                s=42,
                color=style.COLOURS[look % len(style.COLOURS)],
                marker=style.MARKERS[look // len(style.COLOURS) % len(style.MARKERS)],
                label=label(name),
                zorder=3,
            )
        plot.axhline(1.0, color=style.SOFT, linewidth=0.8)
        style.log_axis(plot.xaxis)
        plot.set_xlabel("FLOPs of the search, grid = 1")
        plot.set_ylabel("hypervolume, grid = 1")
        plot.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8)
    return path


def main() -> None:
    found = json.loads((RESULTS / "depth.json").read_text())["details"]["parts"]
    parts = {name.removesuffix(".36"): part for name, part in found.items() if name.endswith(".36")}
    paper = "paper"
    kernels = [name for name in parts if name.startswith(("lagrangian-", "projection-"))]
    curves = tuple(
        (f"{float(budget):.0%}", tuple(np.ravel(curve).tolist())) for budget, curve in parts[paper]["curves"].items()
    )
    drawings: dict[str, Callable[[Path], Path]] = {
        "depth-frontier": lambda path: draw_lines(
            parts, ["joint", "table", "grid", paper], path, parts["grid"]["calibration"]
        ),
        "depth-kernels": lambda path: draw_lines(parts, kernels, path),
        "depth-convergence": lambda path: draw_convergence(parts[paper], path),
        "depth-cost": lambda path: draw_cost(parts, path),
        "depth-retention": lambda path: draw_retention(RetentionInfo("budget", curves, ordered=True), path),
    }
    with tempfile.TemporaryDirectory() as scratch:
        for name, draw in drawings.items():
            keep(Image.open(draw(Path(scratch) / f"{name}.png")), name)


if __name__ == "__main__":
    main()
