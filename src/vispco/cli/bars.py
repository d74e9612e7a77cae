"""Progress of a comparison on the terminal."""

from __future__ import annotations

from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


class Bars:
    """Two bars: methods that are done, and the samples of what is being measured. On stderr; JSON keeps stdout."""

    def __init__(self, total: int, done: int, *, quiet: bool = False) -> None:
        columns = (TextColumn("{task.description:24}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._shown = Progress(*columns, console=Console(stderr=True), disable=quiet)
        self._methods = self._shown.add_task("loading the model", total=total, completed=done)
        self._samples = self._shown.add_task("samples", total=None)

    def __enter__(self) -> Self:
        self._shown.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._shown.stop()

    def begin(self, method: str) -> None:
        """A search begins."""
        self._shown.update(self._methods, description=method)

    def finish(self) -> None:
        """It has been judged, too."""
        self._shown.update(self._methods, advance=1)

    def inside(self, done: int, total: int) -> None:
        """Samples of the evaluation at hand."""
        self._shown.update(self._samples, completed=done, total=total)
