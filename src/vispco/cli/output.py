"""How a command shows its result: a table for people, JSON for programs, a file for later."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal

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
    for places in fitting(needs, width := Console().width):
        table = Table(title=None if parts or not title else title)
        spare = width - 1 - sum(needs[place] + 3 for place in places)
        for place in places:
            more = max(
                0, min(spare, len(columns[place]) - needs[place])
            )  # a header stays in one line where there is room
            spare -= more
            side: Literal["left", "right"] = "left" if place == 0 or columns[place] in left else "right"
            table.add_column(columns[place], justify=side, width=needs[place] + more)
        for row in rows:
            table.add_row(*(row[place] for place in places))
        parts.append(table)
    return Group(*parts)
