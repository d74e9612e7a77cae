"""Progress on the terminal."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from types import TracebackType

    from vispco.sweep.progress import Progress


def render(progress: Progress) -> RenderableType:
    """What is shown of a moment of a sweep."""
    left = "…" if progress.eta is None else str(timedelta(seconds=round(progress.eta)))
    line = f"{progress.settled}/{progress.total} configurations, {progress.running} running, {left} left"
    if progress.failed:
        line += f", {progress.failed} failed"
    table = Table(box=None, pad_edge=False)
    for column in ("budget", "best accuracy", "95 % interval"):
        table.add_column(column, justify="right")
    for budget, point in sorted(progress.best.items()):
        table.add_row(f"{budget:.0%}", f"{point.accuracy:.4f}", f"{point.low:.4f} – {point.high:.4f}")
    return Group(Text(line), ProgressBar(total=progress.total, completed=progress.settled, width=60), table)


class Display:
    """A live view: `with Display() as display: run(..., on_progress=display)`."""

    def __init__(self, console: Console | None = None) -> None:
        self._live = Live(console=console, refresh_per_second=4, transient=False)

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.__exit__(kind, error, trace)

    def __call__(self, progress: Progress) -> None:
        self._live.update(render(progress))
