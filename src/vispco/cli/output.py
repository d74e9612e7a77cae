"""How a command shows its result: a table for people, JSON for programs, a file for later."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import typer

from vispco.errors import InvalidInputError


def show(data: Any, *, as_json: bool, table: Any) -> None:
    """Print `data` as JSON, or the rich `table` made from it."""
    if as_json:
        typer.echo(json.dumps(data, indent=1, allow_nan=False))
        return
    from rich.console import Console  # noqa: PLC0415

    Console().print(table)


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
    return Progress(*columns, console=Console(stderr=True), disable=silent, transient=True)


def check_writable(path: Path) -> None:
    """Say before hours of work, not after, that a result cannot be written."""
    folder = path.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InvalidInputError(
            f"Nothing can be written to {folder} ({error.strerror}). Choose another place with --out."
        ) from error


def write_json(path: Path, data: Any) -> None:
    """Write to a temporary name, then rename: a file is there whole or not at all."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.write_text(json.dumps(data, indent=1, allow_nan=False) + "\n")
    temporary.replace(path)
