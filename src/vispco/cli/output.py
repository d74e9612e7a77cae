"""How a command shows its result: a table for people, JSON for programs, a file for later."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal, Self

import typer


def show(data: Any, *, as_json: bool, table: Any) -> None:
    """Print `data` as JSON, or the rich `table` made from it."""
    if as_json:
        typer.echo(json.dumps(data, indent=1, allow_nan=False))
        return
    from rich.console import Console  # noqa: PLC0415

    Console().print(table)


def widths(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    """What each column needs: a header may be broken between its words, a cell may not."""
    return [
        max((len(text) for text in (*name.split(), *(row[place] for row in rows))), default=0)
        for place, name in enumerate(columns)
    ]


def fitting(needs: Sequence[int], width: int) -> list[list[int]]:
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
    needs = widths(columns, rows)
    for places in fitting(needs, Console().width):
        table = Table(title=None if parts or not title else title)
        for place in places:
            side: Literal["left", "right"] = "left" if place == 0 or columns[place] in left else "right"
            table.add_column(columns[place], justify=side, min_width=needs[place])
        for row in rows:
            table.add_row(*(row[place] for place in places))
        parts.append(table)
    return Group(*parts)


def bars(*, silent: bool = False) -> Any:
    """A progress display on stderr: what is happening, how far it is, and how long it will take."""
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn  # noqa: PLC0415

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    return Progress(*columns, console=console, disable=silent or not console.is_terminal, transient=True)


class ComparisonBars:
    """Two bars: methods that are done, and the samples of what is being measured. On stderr; JSON keeps stdout."""

    def __init__(self, total: int, done: int, *, quiet: bool = False) -> None:
        from rich.console import Console  # noqa: PLC0415
        from rich.progress import (  # noqa: PLC0415
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
        )

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
        """It has been evaluated, too."""
        self._shown.update(self._methods, advance=1)

    def show_samples(self, done: int, total: int) -> None:
        """How many samples of the current evaluation are done."""
        self._shown.update(self._samples, completed=done, total=total)
