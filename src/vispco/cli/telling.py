"""What a command says while it works: on stderr, so that stdout holds the result alone, and in a log file.

On a terminal, bars are drawn; elsewhere, with or without --json, a line comes now and then. --quiet leaves only errors
and warnings, --verbose adds what is looked up and how long it took, --log-file keeps all of it with the time.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self, TextIO

from vispco.core.errors import InvalidInputError
from vispco.core.progress_lines import LOGGER as PROGRESS
from vispco.core.progress_lines import ProgressLines

LOGGER = logging.getLogger("vispco")
SAID = logging.getLogger("vispco.said")
_HANDLERS: list[logging.Handler] = []


class Screen(logging.Handler):
    """Lines on stderr, wherever that is at the time."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.name == PROGRESS.name and draws_bars():
            return  # the bar shows it
        mark = "note: " if record.levelno >= logging.WARNING else ""
        line = fill_lines(f"{mark}{record.getMessage()}", sys.stderr)
        print(line, file=sys.stderr, flush=True)  # noqa: T201 - as a progress bar has it


def fill_lines(text: str, stream: TextIO) -> str:
    """A sentence in lines of a terminal's width, broken between words; as it is where no terminal shows it."""
    if not stream.isatty():
        return text
    columns = shutil.get_terminal_size().columns
    return "\n".join(
        textwrap.fill(line, columns, break_long_words=False, break_on_hyphens=False) if len(line) > columns else line
        for line in text.splitlines()
    )


def begin(*, quiet: bool = False, verbose: bool = False, log_file: Path | None = None) -> None:
    """Say as much as was asked for, from now on. Of many processes (torchrun), the first one speaks."""
    end()
    if quiet and verbose:
        raise InvalidInputError("--quiet and --verbose were both given. Keep one of them.")
    screen = Screen(logging.WARNING if quiet or not is_first() else logging.DEBUG if verbose else logging.INFO)
    _HANDLERS.append(screen)
    if log_file is not None and is_first():
        try:
            log_file.parent.mkdir(parents=True, exist_ok=True)
            kept = logging.FileHandler(log_file, encoding="utf-8")
        except OSError as error:
            raise InvalidInputError(f"The log file {log_file} cannot be written: {error.strerror}.") from error
        kept.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        kept.setLevel(logging.DEBUG if verbose else logging.INFO)
        _HANDLERS.append(kept)
    for handler in _HANDLERS:
        LOGGER.addHandler(handler)
    for logger in (LOGGER, SAID, PROGRESS):
        logger.disabled = (
            False  # a logging configuration of another library silences every logger that is there already
        )
    LOGGER.setLevel(min(handler.level for handler in _HANDLERS))


def end() -> None:
    """As before `begin`: what other programs do with these loggers is their business."""
    for handler in _HANDLERS:
        LOGGER.removeHandler(handler)
        handler.close()
    _HANDLERS.clear()
    LOGGER.setLevel(logging.NOTSET)


def is_first() -> bool:
    """Whether this is the process that speaks and writes."""
    return os.environ.get("RANK", "0") == "0"


def draws_bars() -> bool:
    """Whether there is a terminal, and nobody asked for quiet."""
    screen = next((handler for handler in _HANDLERS if isinstance(handler, Screen)), None)
    return screen is not None and screen.level <= logging.INFO and sys.stderr.isatty()


def say(line: str) -> None:
    """A sentence on what happens."""
    SAID.info("%s", line)


def detail(line: str) -> None:
    """What only --verbose shows."""
    SAID.debug("%s", line)


def note_error(sentence: str) -> None:
    """An error for the log file alone; the screen has it already."""
    for handler in _HANDLERS:
        if isinstance(handler, logging.FileHandler):
            handler.emit(logging.LogRecord(SAID.name, logging.ERROR, "", 0, sentence, None, None))


class Bar:
    """One thing that is under way."""

    def __init__(self, text: str) -> None:
        self.text, self.lines, self._drawn = text, ProgressLines(), _columns()
        self._task: Any = None

    def tell(self, done: float | None = None, total: float | None = None, text: str | None = None) -> None:
        """So much of the whole is done."""
        self.text = self.text if text is None else text
        self.lines.tell(done, total, self.text)
        if self._task is not None:
            self._drawn.update(self._task, completed=done, total=total, description=self.text)

    def start(self) -> None:
        self._drawn.start()
        self._task = self._drawn.add_task(self.text, total=None)
        self.lines.tell(None, None, self.text)

    def stop(self) -> None:
        self._drawn.stop()


@contextmanager
def bar(text: str) -> Iterator[Bar]:
    """A bar on a terminal, lines elsewhere, for the length of a block."""
    shown = Bar(text)
    shown.start()
    try:
        yield shown
    finally:
        shown.stop()


class ComparisonBars:
    """Two bars: methods that are done, and the samples of what is being measured. Without a terminal, lines."""

    def __init__(self, total: int, done: int) -> None:
        from rich.console import Console  # noqa: PLC0415
        from rich.progress import (  # noqa: PLC0415
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
        )

        columns = (TextColumn("{task.description:24}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._shown = Progress(*columns, console=Console(stderr=True), disable=not draws_bars())
        self._lines, self._done, self._total, self._name = ProgressLines(), done, total, "loading the model"
        self._methods = self._shown.add_task(self._name, total=total, completed=done)
        self._samples = self._shown.add_task("samples", total=None)

    def __enter__(self) -> Self:
        self._shown.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._shown.stop()

    def begin(self, method: str) -> None:
        """A search begins."""
        self._name = method
        if not draws_bars():
            say(f"{self._done + 1} of {self._total}: {method}")
        self._shown.update(self._methods, description=method)

    def finish(self) -> None:
        """It has been evaluated, too."""
        self._done += 1
        self._shown.update(self._methods, advance=1)

    def show_samples(self, done: int, total: int) -> None:
        """How many samples of the current evaluation are done."""
        self._lines.tell(done, total, f"{self._name}: samples")
        self._shown.update(self._samples, completed=done, total=total)


def _columns() -> Any:
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn  # noqa: PLC0415
    from rich.table import Column  # noqa: PLC0415

    columns = (
        TextColumn("{task.description}", table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1)),
        BarColumn(bar_width=16),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=Console(stderr=True), disable=not draws_bars(), transient=True)
