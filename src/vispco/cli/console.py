"""The console: messages, progress and results of all commands.

Messages and progress go to stderr, so that stdout holds the result alone: on a terminal a bar is drawn, elsewhere, with
or without --json, a line comes now and then. --quiet leaves errors and warnings, --verbose adds what is looked up and
how long it took, --log-file keeps all of it with the time.
"""

import json
import logging
import os
import shutil
import sys
import textwrap
import webbrowser
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TextIO

import typer

from vispco.core.errors import InvalidInputError
from vispco.core.progress_lines import LOGGER as PROGRESS
from vispco.core.progress_lines import ProgressBar

LOGGER = logging.getLogger("vispco")
SAID = logging.getLogger("vispco.said")
_HANDLERS: list[logging.Handler] = []


class _Screen(logging.Handler):
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
    screen = _Screen(logging.WARNING if quiet or not is_first() else logging.DEBUG if verbose else logging.INFO)
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
    for logger in (LOGGER, SAID, PROGRESS):  # another library's logging configuration may have silenced them
        logger.disabled = False
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
    screen = next((handler for handler in _HANDLERS if isinstance(handler, _Screen)), None)
    return screen is not None and screen.level <= logging.INFO and sys.stderr.isatty()


def say(line: str) -> None:
    """A sentence on what happens."""
    SAID.info("%s", line)


def note_error(sentence: str) -> None:
    """An error for the log file alone; the screen has it already."""
    for handler in _HANDLERS:
        if isinstance(handler, logging.FileHandler):
            handler.emit(logging.LogRecord(SAID.name, logging.ERROR, "", 0, sentence, None, None))


def bar(text: str) -> ProgressBar:
    """A bar on a terminal, lines elsewhere, for the length of a block."""
    return ProgressBar(text, show=draws_bars())


def show(data: Any, *, as_json: bool, table: Any) -> None:
    """Print `data` as JSON, or the rich `table` made from it; a list of them is printed one under another."""
    if as_json:
        typer.echo(json.dumps(data, indent=1, allow_nan=False))
        return
    from rich.console import Console  # noqa: PLC0415

    for each in table if isinstance(table, list) else [table]:
        Console().print(each)


def _widths(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    """What each column needs: a header may be broken between its words, a cell may not."""
    return [
        max((len(text) for text in (*name.split(), *(row[place] for row in rows))), default=0)
        for place, name in enumerate(columns)
    ]


def _fitting(needs: Sequence[int], width: int) -> list[list[int]]:
    """Which columns stand side by side in a terminal: as many as fit, none cut, the first in every table."""
    tables = [[0]]
    for place in range(1, len(needs)):
        if len(tables[-1]) > 1 and 1 + sum(needs[i] + 3 for i in (*tables[-1], place)) > width:
            tables.append([0])
        tables[-1].append(place)
    return tables


def fitted_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], title: str = "", left: Sequence[str] = ()
) -> Any:
    """A table, split into several where the terminal is too narrow. Numbers are right-aligned; `left` and the first column are not."""
    from rich.console import Console, Group  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    parts: list[Table] = []
    needs = _widths(columns, rows)
    for places in _fitting(needs, width := Console().width):
        table = Table(title=None if parts or not title else title)
        spare = width - 1 - sum(needs[place] + 3 for place in places)
        for place in places:
            # a header stays in one line where there is room
            more = max(0, min(spare, len(columns[place]) - needs[place]))
            spare -= more
            side: Literal["left", "right"] = "left" if place == 0 or columns[place] in left else "right"
            table.add_column(columns[place], justify=side, width=needs[place] + more)
        for row in rows:
            table.add_row(*(row[place] for place in places))
        parts.append(table)
    return Group(*parts)


def table(
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    title: str = "",
    *,
    caption: str = "",
    left: Sequence[str] = (),
    last: Sequence[str] = (),
) -> Any:
    """A table. Numbers are right-aligned; the first column, those of `left` and values by layer are not.

    last: a row under a line.
    """
    from rich.markup import escape  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    found = Table(title=escape(title) or None, caption=escape(caption) or None, caption_justify="left")
    for place, name in enumerate(columns):
        side: Literal["left", "right"] = "left" if place == 0 or name in left or "by layer" in name else "right"
        texts = [row[place] for row in rows if side == "left" and isinstance(row[place], str)]
        words = " ".join(texts).split()
        longest = min(max(map(len, words), default=0), 40)  # a word is not broken where there is room
        found.add_column(escape(name), justify=side, no_wrap=side == "right", min_width=longest)
    for row in rows:
        found.add_row(*(escape(cell) if isinstance(cell, str) else cell for cell in row))
    if last:
        found.add_section()
        found.add_row(*last)
    return found


def open_in_browser(page: Path) -> bool:
    """Open a page; False where there is no browser that could show it."""
    screens = ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")
    if sys.platform.startswith("linux") and not any(os.environ.get(name) for name in screens):
        return False  # a browser for text would take over the terminal
    with _silent_children():
        return webbrowser.open(page.resolve().as_uri())


@contextmanager
def _silent_children() -> Iterator[None]:
    """Processes that start in this block inherit an output that goes nowhere."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = {number: os.dup(number) for number in (1, 2)}
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        for number in kept:
            os.dup2(nowhere, number)
        yield
    finally:
        os.close(nowhere)
        for number, copy in kept.items():
            os.dup2(copy, number)
            os.close(copy)
