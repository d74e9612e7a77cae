"""From what a user typed after `--tasks` and `--data-root` to the benchmarks' files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from vispco.core.errors import InvalidInputError
from vispco.metrics.benchmark import BENCHMARKS, Benchmark, benchmark, plain

if TYPE_CHECKING:
    from collections.abc import Iterable

# A comma that separates tasks is followed by a name and then =, another comma or the end; others belong to a path.
SEPARATOR = re.compile(r",(?=\s*[\w-]*\s*(?:[=,]|$))")
ENDINGS = ("", "_local")  # VLMEvalKit writes X_local.tsv, with image files beside it, for tables above 1 GB


def find(data_root: str | Path, names: Iterable[str] | None = None) -> dict[str, Path]:
    """The file of each benchmark in a folder, or in a folder in it; all that are there, or those that are named."""
    root = Path(data_root)
    if not root.is_dir():
        raise InvalidInputError(
            f"The data root {root} is not a folder. Give the one with the .tsv files of VLMEvalKit."
        )
    present = {plain(path.stem): path for path in sorted([*root.glob("*/*.tsv"), *root.glob("*.tsv")])}
    wanted = [benchmark(name) for name in names] if names is not None else [BENCHMARKS.get(name) for name in BENCHMARKS]
    found = {entry.name: path for entry in wanted if (path := file_of(entry, present)) is not None}
    missing = [entry for entry in wanted if entry.name not in found]
    if not found or (names is not None and missing):
        looked = "; ".join(f"{entry.name}: {', '.join(name + '.tsv' for name in entry.files)}" for entry in missing)
        raise InvalidInputError(
            f"{root} does not have the file of {', '.join(entry.name for entry in missing)}. Names looked for: {looked}."
        )
    return found


def file_of(entry: Benchmark, present: dict[str, Path]) -> Path | None:
    names = [plain(name + ending) for name in (*entry.files, entry.name) for ending in ENDINGS]
    return next((present[name] for name in names if name in present), None)


def parse_tasks(tasks: str, data_root: str | Path | None = None) -> dict[str, Path]:
    """From "mmbench=PATH,chartqa=PATH", or from names alone where a data root has their files; "all" is all that it has."""
    found: dict[str, Path] = {}
    for part in (part.strip() for part in SEPARATOR.split(tasks)):
        if not part:
            continue
        typed, separator, given = (piece.strip() for piece in part.partition("="))
        if typed == "all" and not separator and data_root is not None:
            located = find(data_root)
        elif separator:
            located = {benchmark(typed).name: existing(typed, given)}
        elif data_root is None:
            name = benchmark(typed).name
            raise InvalidInputError(f"Task {name} has no file. Write {name}=PATH, or give --data-root.")
        else:
            located = find(data_root, [typed])
        for name, path in located.items():
            if name in found and found[name] != path:
                raise InvalidInputError(f"Task {name} is given twice, as {found[name]} and as {path}. Keep one.")
            found[name] = path
    if not found:
        raise InvalidInputError(f"No task in {tasks!r}. Write name=PATH with a name of: {', '.join(BENCHMARKS)}.")
    return found


def existing(name: str, given: str) -> Path:
    path = Path(given).expanduser()
    if not given or not path.is_file():
        raise InvalidInputError(f"Task {name}: the file {given!r} does not exist. Give the path of its .tsv file.")
    return path
