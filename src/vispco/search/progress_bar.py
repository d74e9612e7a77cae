"""The progress of a training as one line: KL, violation, w, lambda and the time left."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

from vispco.core.progress_lines import ProgressLines

_FIELDS = ("kl", "share", "violation", "w", "lambda")


def _format_values(values: dict[str, float]) -> str:
    """The numbers as the line shows them; those that a solver does not have are left out."""
    names = {"kl": "KL", "share": "FLOPs share", "violation": "violation", "w": "w", "lambda": "λ"}
    return "  ".join(f"{names[key]} {values[key]:.4g}" for key in _FIELDS if key in values)


class ProgressBar:
    """A progress bar on the terminal's error stream; with `show=False` nothing is drawn.

    Drawn or not, the logger `vispco.progress` gets a line now and then. total: steps, of which it shows how many are done; or, with `share=True`, work in any unit, shown in per cent.
    """

    def __init__(
        self,
        total: float,
        *,
        done: int = 0,
        show: bool = True,
        share: bool = False,
        console: Console | None = None,
    ) -> None:
        columns: tuple[Any, ...] = (
            BarColumn(),
            TaskProgressColumn() if share else MofNCompleteColumn(),
            TextColumn("{task.fields[values]}"),
            TimeRemainingColumn(),
        )
        self.progress = Progress(*columns, console=console or Console(stderr=True), disable=not show, transient=True)
        self.total, self.done = total, float(done)
        self.lines = ProgressLines()
        self.task: TaskID | None = None

    def __enter__(self) -> Self:
        self.progress.start()
        self.task = self.progress.add_task("search", total=self.total, completed=int(self.done), values="")
        return self

    def step(self, values: dict[str, float]) -> None:
        self.advance(1, _format_values(values))

    def advance(self, work: float, what: str) -> None:
        """So much is done; `what` is what happens."""
        self.done += work
        self.lines.tell(self.done, self.total, what)
        if self.task is not None:
            self.progress.update(self.task, advance=work, values=what)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.progress.stop()
