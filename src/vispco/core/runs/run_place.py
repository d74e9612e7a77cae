"""Whether a folder can take a run, what to say where it cannot, and how an earlier run leaves it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from vispco.core.runs import files
from vispco.core.runs.run_lock import RunFolderError
from vispco.core.runs.run_record import RECORD, RunRecord, inside

NAMED = 5  # files that a refusal lists


def make_folder(path: Path, *, exist_ok: bool = True) -> None:
    """Make a folder and those above it. `FileExistsError` if it must be new and is not."""
    try:
        path.mkdir(parents=True, exist_ok=exist_ok)
    except (OSError, ValueError) as error:
        if isinstance(error, FileExistsError) and not exist_ok:
            raise
        raise RunFolderError(
            f"The folder {path} cannot be made ({getattr(error, 'strerror', None) or error}). Choose another place with --out."
        ) from error


def check_place(path: Path) -> None:
    try:
        place, here = path.resolve(), Path.cwd()
        found = path.exists()
    except (OSError, ValueError, RuntimeError) as error:  # too long, a null byte, links in a circle
        reason = getattr(error, "strerror", None) or error
        raise RunFolderError(f"{str(path)!r} cannot be a folder: {reason}. Give the name of a new folder.") from error
    if place == here or place in here.parents:
        raise RunFolderError(
            f"The folder {str(path)!r} is the current one or holds it. Give a new one, such as runs/one."
        )
    if found and not path.is_dir():
        raise RunFolderError(f"{path} is a file, not a folder. Give the name of a new folder.")


def check_empty(path: Path, older: Sequence[str] = ()) -> list[str]:
    """A folder with anything in it is refused, apart from hidden files (.gitkeep, .DS_Store) and those of older versions."""
    names = sorted(each.name for each in path.iterdir() if not each.name.startswith("."))
    found = [name for name in names if not any(fnmatchcase(name, pattern) for pattern in older)]
    if found:
        more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
        raise RunFolderError(
            f"{path} holds files that no run has noted in {RECORD}: {', '.join(found[:NAMED])}{more}. They may belong to a "
            "model, to you, or to an older version of vispco. Give a new folder."
        )
    return names


def describe_other_run(path: Path, found: RunRecord, kind: str, wanted: Mapping[str, Any]) -> str:
    """What is in the folder and how it differs from what was asked for."""
    if found.kind != kind:
        return f"{path} holds another run ({found.title}), and a {kind} cannot go there. Give another folder."
    keys = [key for key in {**found.settings, **wanted} if found.settings.get(key) != wanted.get(key)]
    differences = "; ".join(
        f"{key}: {_short(found.settings.get(key))} there, {_short(wanted.get(key))} here" for key in keys
    )
    return (
        f"{path} holds another run ({found.title}) with other settings ({differences}). Give another folder with --out, or "
        "--overwrite to replace the files of that run."
    )


def _short(value: Any, length: int = 60) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= length else f"{text[:length]}..."


def remove_run(folder: Path, record: RunRecord) -> None:
    """Delete what a run wrote. Nothing is deleted if one of the files has been changed since."""
    listed = {**record.files, **record.outputs}
    for name, expected in listed.items():
        path = inside(folder, name)
        if path.is_dir():
            raise RunFolderError(f"{path} is a folder, and the run wrote a file there. Move it away, then run again.")
        if expected is not None and path.is_file() and files.digest_file(path) != expected:
            raise RunFolderError(f"{path} was changed after the run had written it. Move it away, then run again.")
    for name in listed:
        path = folder / name
        path.unlink(missing_ok=True)
        for parent in path.relative_to(folder).parents[:-1]:
            with suppress(OSError):  # not empty
                (folder / parent).rmdir()
    (folder / RECORD).unlink()
