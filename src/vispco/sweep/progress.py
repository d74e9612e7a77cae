"""The progress of a sweep, as data and on the terminal."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from vispco.core.progress_lines import ProgressLines
from vispco.evaluation.frontier import Point

BUDGETS = (0.25, 0.5, 0.75, 1.0)
_LINE_SECONDS = 30.0  # seconds between two lines if there is no terminal


@dataclass(frozen=True)
class Progress:
    """Numbers of configurations, the best point within each budget, and elapsed and remaining seconds."""

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


def _status_line(progress: Progress) -> str:
    """Return the numbers of configurations, and the time left once it is known, as one line."""
    line = f"{progress.settled}/{progress.total} configurations, {progress.running} running"
    line += "" if progress.eta is None else f", {timedelta(seconds=round(progress.eta))} left"
    return f"{line}, {progress.failed} failed" if progress.failed else line


def _best_line(progress: Progress) -> str:
    """Return the best accuracy within each budget as one line."""
    return ", ".join(f"{budget:.0%}: {point.accuracy:.4f}" for budget, point in sorted(progress.best.items()))


def render(progress: Progress) -> RenderableType:
    """Return what the terminal shows."""
    table = Table(box=None, pad_edge=False)
    for column in ("budget", "best accuracy", "95 % interval"):
        table.add_column(column, justify="right")
    for budget, point in sorted(progress.best.items()):
        table.add_row(f"{budget:.0%}", f"{point.accuracy:.4f}", f"{point.low:.4f} – {point.high:.4f}")
    bar = ProgressBar(total=progress.total, completed=progress.settled, width=60)
    return Group(Text(_status_line(progress)), bar, table)


class ProgressDisplay:
    """A live view on stderr: `with ProgressDisplay() as display: run(..., on_progress=display)`.

    If stderr is not a terminal, it prints a line every 30 seconds. draw=False: it draws and prints nothing; the lines go to
    the logger `vispco.progress`, as they always do.
    """

    def __init__(self, console: Console | None = None, *, draw: bool = True) -> None:
        self._console, self._draw, self._lines = console or Console(stderr=True), draw, ProgressLines()
        self._live = Live(console=self._console, refresh_per_second=4, transient=False)
        self._last_line = -_LINE_SECONDS

    def __enter__(self) -> Self:
        if self._draw:
            self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._draw:
            self._live.__exit__(kind, error, trace)

    def __call__(self, progress: Progress) -> None:
        line = f"{_status_line(progress)}; best by budget: {_best_line(progress)}"
        self._lines.tell(progress.settled, progress.total, line)
        if not self._draw:
            return
        if self._console.is_terminal:
            self._live.update(render(progress))
        elif progress.seconds - self._last_line >= _LINE_SECONDS or progress.settled == progress.total:
            self._last_line = progress.seconds
            self._console.print(line, soft_wrap=True)
