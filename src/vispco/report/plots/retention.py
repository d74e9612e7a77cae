"""Retention by layer: one curve for each budget, or one for each kernel at the same budget."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from vispco.evaluation.frontier import Frontier
from vispco.report.plots import style
from vispco.report.progress import picked

_BUDGETS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
_LIGHT, _DEEP = (0.70, 0.83, 0.93), (0.02, 0.24, 0.44)  # blue


@dataclass(frozen=True)
class RetentionInfo:
    """Curves by label, in order, each [L]; `ordered` where the labels are steps of one quantity (budgets)."""

    title: str
    curves: tuple[tuple[str, tuple[float, ...]], ...]
    ordered: bool


def retention_by_budget_info(frontier: Frontier, budgets: Sequence[float] = _BUDGETS) -> RetentionInfo:
    """The schedule that a frontier picks at each budget; budgets that nothing meets are left out."""
    groups: list[
        tuple[list[float], tuple[float, ...]]
    ] = []  # neighbouring budgets with the same schedule are one curve
    for budget in sorted(budgets):
        curve = _picked(frontier, budget)
        if groups and groups[-1][1] == curve:
            groups[-1][0].append(budget)
        elif curve:
            groups.append(([budget], curve))
    named = ((f"{same[0]:.0%}" if len(same) == 1 else f"{same[0]:.0%}–{same[-1]:.0%}", curve) for same, curve in groups)
    return RetentionInfo("budget", tuple(named), ordered=True)


def retention_by_kernel_info(found: Mapping[str, Frontier], budget: float = 0.5) -> RetentionInfo:
    """The schedule that each kernel's frontier picks at one budget; kernels with nothing within it are left out."""
    found_curves = ((kernel, _picked(frontier, budget)) for kernel, frontier in found.items())
    curves = tuple((label, curve) for label, curve in found_curves if curve)
    return RetentionInfo(f"kernel, at {budget:.0%}", curves, ordered=False)


def _picked(frontier: Frontier, budget: float) -> tuple[float, ...]:
    """[L], the mean over samples where each has its own; or nothing."""
    point = picked(frontier, budget)
    if point is None:
        return ()
    return tuple(point.schedule.tensor().reshape(-1, point.schedule.num_layers).mean(0).tolist())


def draw_retention(info: RetentionInfo, path: str | Path) -> Path:
    with style.canvas(path) as axes:
        plot = axes[0, 0]
        for place, (label, curve) in enumerate(info.curves):
            look = style.look_of(place)
            if info.ordered:  # a larger budget is darker
                share = place / max(1, len(info.curves) - 1)
                colour = tuple(a + (b - a) * share for a, b in zip(_LIGHT, _DEEP, strict=True))
                look = {"color": colour, "linestyle": "-"}
            plot.plot(range(len(curve)), curve, **look, markersize=4, linewidth=1.8, drawstyle="steps-mid", label=label)
        plot.set_xlabel("decoder layer")
        plot.set_ylabel("visual tokens kept")
        plot.set_ylim(-0.02, 1.04)
        plot.xaxis.get_major_locator().set_params(integer=True)
        style.percent_axis(plot.yaxis)
        plot.legend(title=info.title, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return Path(path)
