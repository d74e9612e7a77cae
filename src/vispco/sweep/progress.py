"""How far a sweep is, as data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from vispco.errors import InvalidInputError

if TYPE_CHECKING:
    from types import TracebackType

    from vispco.frontier import Frontier, Point

BUDGETS = (0.25, 0.5, 0.75, 1.0)
EVERY = 30.0  # seconds between two lines where there is no terminal


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


def line(progress: Progress) -> str:
    """How far a sweep is, in a line."""
    left = "…" if progress.eta is None else str(timedelta(seconds=round(progress.eta)))
    told = f"{progress.settled}/{progress.total} configurations, {progress.running} running, {left} left"
    return f"{told}, {progress.failed} failed" if progress.failed else told


def best(progress: Progress) -> str:
    """The best accuracy within each budget, in a line."""
    return ", ".join(f"{budget:.0%}: {point.accuracy:.4f}" for budget, point in sorted(progress.best.items()))


def render(progress: Progress) -> RenderableType:
    """What is shown of a moment of a sweep."""
    table = Table(box=None, pad_edge=False)
    for column in ("budget", "best accuracy", "95 % interval"):
        table.add_column(column, justify="right")
    for budget, point in sorted(progress.best.items()):
        table.add_row(f"{budget:.0%}", f"{point.accuracy:.4f}", f"{point.low:.4f} – {point.high:.4f}")
    return Group(Text(line(progress)), ProgressBar(total=progress.total, completed=progress.settled, width=60), table)


class Display:
    """A live view, on stderr: `with Display() as display: run(..., on_progress=display)`; in a log file, a line at times."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)
        self._live = Live(console=self._console, refresh_per_second=4, transient=False)
        self._told = -EVERY

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.__exit__(kind, error, trace)

    def __call__(self, progress: Progress) -> None:
        if self._console.is_terminal:
            self._live.update(render(progress))
        elif progress.seconds - self._told >= EVERY or progress.settled == progress.total:
            self._told = progress.seconds
            self._console.print(f"{line(progress)}; best by budget: {best(progress)}", soft_wrap=True)
