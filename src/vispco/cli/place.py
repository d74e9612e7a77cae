"""Output places of commands: the folder of a run, or a file in the folder of the run that it is about."""

from collections.abc import Sequence
from pathlib import Path

import typer

from vispco.core.runs.run_folder import RunFolder
from vispco.core.runs.run_record import check_output

RUNS = Path("runs")


def run_folder(out: Path | None, *words: str, overwrite: bool = False) -> RunFolder:
    """The folder that was given, or a new one: runs/WORD-WORD-1. Refused now where no run could be put into it."""
    folder = RunFolder.new(RUNS, "-".join(words)) if out is None else RunFolder(out, overwrite=overwrite)
    folder.check()
    return folder


def output_file(out: Path | None, runs: Sequence[Path | str], name: str, mark: str) -> Path:
    """The file that was given, or NAME in the folder of the first run; refused where something else has that name."""
    first = Path(runs[0]) if runs else RUNS
    folder = first if first.is_dir() or not runs else first.parent
    path = folder / name if out is None else out
    check_output(path, mark)
    return path


def tell_next(folder: Path, *commands: str) -> None:
    """Where the result is, and what to type next."""
    typer.echo(f"{folder} is ready. Next:")
    for command in commands:
        typer.echo(f"  {command}")
