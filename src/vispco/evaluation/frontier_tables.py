"""A frontier for people, as texts: its points, their accuracy by task, and a verdict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from vispco.evaluation import Evaluation
    from vispco.evaluation.frontier import Frontier, Point

Table: TypeAlias = tuple[Sequence[str], Sequence[Sequence[str]]]
"""Columns, and rows of as many cells."""


def tasks_table(frontier: Frontier, unpruned: Evaluation) -> Table:
    """Accuracy by task, with the number of items: unpruned, and at each searched budget."""
    points = sorted(frontier.points, key=lambda point: float(point.provenance.get("budget") or 0.0))
    columns = ("task", "items", "unpruned", *(f"{point.provenance['budget']:.0%}" for point in points))
    rows = [
        (
            task.task,
            str(task.n),
            f"{task.accuracy:.0%}",
            *(f"{point.evaluation.tasks[place].accuracy:.0%}" for point in points),
        )
        for place, task in enumerate(unpruned.tasks)
    ]
    return columns, rows


def points_table(frontier: Frontier, cost: str) -> Table:
    """The points of a frontier, cheapest first."""
    measured = any(point.kl is not None for point in frontier.points)
    layers = "mean retention by layer" if any(point.mean_of for point in frontier.points) else "retention by layer"
    rows = []
    for point in sorted(frontier.points, key=lambda p: p.cost[cost]["fraction"]):
        retention = point.schedule.tensor().view(-1, point.schedule.num_layers)[0].tolist()
        rows.append(
            (
                f"{point.cost[cost]['fraction']:.1%}",
                f"{point.accuracy:.1%}",
                f"{point.low:.1%} - {point.high:.1%}",
                *["" if point.kl is None else f"{point.kl:.3g}"] * measured,
                " ".join(f"{r:.2f}" for r in retention),
            )
        )
    columns = (f"FLOPs ({cost})", "accuracy", "95 % interval", *["KL"] * measured, layers)
    return columns, rows


_WITHIN = 0.02  # of accuracy: a loss that the verdict calls small


def verdict(frontier: Frontier, unpruned: Evaluation, cost: str) -> str:
    """The unpruned accuracy on the same items, the cheapest schedule that stays within two points of it, and whether noise
    explains the difference.
    """
    start = f"The unpruned model reaches {unpruned.accuracy:.1%} on the same items."
    best = cheapest_near(frontier, unpruned.accuracy, cost)
    if best is None:
        return f"{start} No searched budget stays within {_WITHIN:.0%} of it."
    fraction = best.cost[cost]["fraction"]
    found = f"{start} With {fraction:.0%} of the FLOPs ({cost}) the pruned model reaches {best.accuracy:.1%}"
    paired = best.evaluation.paired(unpruned)
    return f"{found}." if paired is None else f"{found}: {paired.sentence}."


def search_verdict(frontier: Frontier) -> str:
    """At which budgets a search gained more than noise over the best selector without one; empty where that was not asked."""
    compared = [point for point in frontier.points if "without_search" in point.provenance]
    parts = []
    for point in sorted(compared, key=lambda each: float(each.provenance["budget"])):
        about, gain = (
            point.provenance["without_search"],
            point.accuracy - point.provenance["without_search"]["accuracy"],
        )
        noise = about.get("within_noise", True)
        simplest = f"{about['selector']} alone before the language model" if noise or gain < 0 else "what was searched"
        interval = f" [{100 * about['low']:+.1f}, {100 * about['high']:+.1f}]" if "low" in about else ""
        parts.append(
            f"{point.provenance['budget']:.0%}: {100 * gain:+.1f} points{interval} over {about['selector']}; "
            f"simplest within noise: {simplest}"
        )
    return "\n".join(["Against the best single selector without a search, on the same items:", *parts]) if parts else ""


def cheapest_near(frontier: Frontier, unpruned: float, cost: str) -> Point | None:
    """The cheapest point that stays within two points of the unpruned accuracy; None where none does."""
    near = [point for point in frontier.points if point.accuracy >= unpruned - _WITHIN]
    return min(near, key=lambda point: point.cost[cost]["fraction"], default=None)
