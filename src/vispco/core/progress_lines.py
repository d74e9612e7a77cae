"""Progress: a bar on a terminal, and occasional log lines for log files and where there is no terminal.

Lines go to the logger `vispco.progress`, at level INFO: without a handler they cost nothing and are not shown. The
command line shows them on stderr where it draws no bars, and writes them to `--log-file`.
"""

import logging
import time
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

_SECONDS = 10.0  # between two lines
LOGGER = logging.getLogger("vispco.progress")


class ProgressLines:
    """A line when something begins, one every ten seconds, and one when it ends."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._last: float | None = None
        self._ended = False

    def tell(self, done: float | None, total: float | None, text: str) -> None:
        """Report `done` of `total`, labelled `text`: '42 %, 0:01:10 left: TEXT'. None where a number is not known."""
        now = time.monotonic()
        share = min(1.0, done / total) if total and done is not None else None
        ended = share == 1.0
        due = self._last is None or now - self._last >= _SECONDS or (ended and not self._ended)
        self._ended = ended
        if not due:
            return
        self._last, seconds = now, now - self._began
        if share is None:
            LOGGER.info("%s", text)
        elif ended:
            LOGGER.info("100 %%, after %s: %s", timedelta(seconds=round(seconds)), text)
        else:
            rest = timedelta(seconds=round(seconds * (1 - share) / share)) if share > 0 and seconds >= 1 else None
            LOGGER.info("%.0f %%%s: %s", 100 * share, "" if rest is None else f", {rest} left", text)


class ProgressBar:
    """A bar on the terminal's error stream, and log lines now and then, whether it is drawn or not.

    total: of the work, in any unit; None where it is not known. show: draw it, on `console`.
    """

    def __init__(
        self, text: str = "", total: float | None = None, *, done: float = 0.0, show: bool = True, console: Any = None
    ) -> None:
        from rich.console import Console  # noqa: PLC0415 - only where there is progress
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn  # noqa: PLC0415
        from rich.table import Column  # noqa: PLC0415

        columns = (
            TextColumn("{task.description}", table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1)),
            BarColumn(bar_width=16),
            TimeElapsedColumn(),
            TextColumn("left:"),
            TimeRemainingColumn(),
        )
        self.text, self.total, self.done, self.lines = text, total, done, ProgressLines()
        self.drawn = Progress(*columns, console=console or Console(stderr=True), disable=not show, transient=True)
        self._task = self.drawn.add_task(text, total=total, completed=int(done))
        if text:
            self.lines.tell(None, None, text)

    def __enter__(self) -> Self:
        self.drawn.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.drawn.stop()

    def tell(self, done: float | None = None, total: float | None = None, text: str | None = None) -> None:
        """Advance to `done` of `total`; label the bar `text`."""
        self.text = self.text if text is None else text
        self.lines.tell(done, total, self.text)
        self.drawn.update(self._task, completed=done, total=total, description=self.text)

    def advance(self, work: float, text: str) -> None:
        """Advance by `work`; label the bar `text`."""
        self.done += work
        self.tell(self.done, self.total, text)
