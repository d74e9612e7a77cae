"""Points for the tests of frontiers: a cost, an accuracy, and a schedule that carries them."""

from __future__ import annotations

from vispco.core.schedule import Schedule
from vispco.evaluation import Evaluation, TaskResult
from vispco.evaluation.frontier import Frontier, Point


def point(cost: float, accuracy: float, name: str = "", *, seconds: float = 0.0, kl: float | None = None) -> Point:
    task = TaskResult("counting", accuracy, accuracy, accuracy, 100)
    evaluation = Evaluation(
        (task,),
        accuracy,
        accuracy,
        accuracy,
        {"exact": cost * 2e12, "paper": cost * 1e12},
        {"exact": cost, "paper": cost / 2},
        kl,
        seconds,
    )
    keep = min(max(cost, 0.0), 1.0) if cost == cost else 0.5  # noqa: PLR0124  # NaN is what some tests are about
    return Point(Schedule.single(1, keep, 4), evaluation, {"trial": name} if name else {})


def frontier(pairs, **options) -> Frontier:
    return Frontier([point(*pair) for pair in pairs], **options)
