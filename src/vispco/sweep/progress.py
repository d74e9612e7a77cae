"""How far a sweep is, as data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vispco.errors import InvalidInputError

if TYPE_CHECKING:
    from vispco.frontier import Frontier, Point

BUDGETS = (0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class Progress:
    """Configurations done, failed and in all; the best point so far within each budget; seconds gone and left."""

    done: int
    failed: int
    running: int
    total: int
    best: dict[float, Point]
    seconds: float
    eta: float | None

    @property
    def settled(self) -> int:
        return self.done + self.failed


OnProgress = Callable[[Progress], None]


def best_per_budget(frontier: Frontier, budgets: tuple[float, ...] = BUDGETS) -> dict[float, Point]:
    """The most accurate point within each budget that has one."""
    best = {}
    for budget in budgets:
        try:
            best[budget] = frontier.pick(budget)
        except InvalidInputError:
            continue
    return best


def time_left(settled_now: int, left: int, seconds: float) -> float | None:
    """Seconds left at this run's own pace; None before it has settled anything."""
    return seconds / settled_now * left if settled_now else None
