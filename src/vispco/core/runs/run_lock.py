"""`run.lock`: the one process that writes to a run's folder. A dead process loses it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from vispco.core.runs import files
from vispco.core.errors import InvalidInputError
from vispco.core.runs.provenance import machine_id, process_start

try:
    import fcntl
except ImportError:  # pragma: no cover  # Windows has none
    fcntl = None  # type: ignore[assignment]

LOCK = "run.lock"


class RunFolderError(InvalidInputError):
    """A folder cannot take this run; the message names what is in it and what to do."""


def write_lock(folder: Path) -> None:
    """Name this process as the one that writes to the folder."""
    owner = {"pid": os.getpid(), "machine": machine_id(), "started": process_start(os.getpid())}
    files.write_json(folder / LOCK, owner)


def owner_of(path: Path) -> dict[str, Any] | None:
    """Who writes to the folder now; None if nobody does, or if the process is dead."""
    if not files.is_file(path / LOCK):
        return None
    try:
        owner = files.read_json_object(path / LOCK)
        pid, machine = int(owner["pid"]), owner["machine"]
    except (InvalidInputError, KeyError, TypeError, ValueError, OverflowError):
        return None  # it is written whole, so this is not a lock of ours
    dead = machine == machine_id() and process_start(pid) != owner.get("started")
    return None if dead else owner


def check_lock(path: Path) -> None:
    """Raise if another process writes to the folder, or if its lock could not be replaced."""
    if files.is_folder(path / LOCK):
        raise RunFolderError(f"{path / LOCK} is a folder, and a run has a file there. Move it away.")
    owner = owner_of(path)
    if owner is None:
        return
    host = str(owner["machine"]).partition("/")[0]
    rest = "." if owner["machine"] == machine_id() else f", or delete {path / LOCK} if that process is dead."
    raise RunFolderError(
        f"{path} is in use by process {owner['pid']} on {host}. Wait for it, or give another folder{rest}"
    )


def remove_lock(folder: Path) -> None:
    """Take the name of a process away."""
    try:
        (folder / LOCK).unlink(missing_ok=True)
    except OSError as error:
        raise RunFolderError(f"{folder / LOCK} cannot be removed: {error.strerror}. Move it away.") from error


def wait_for_lock(handle: int, place: Path) -> None:
    """Hold the kernel's exclusive lock on an open file until it is closed. Some network file systems have none."""
    try:
        if fcntl is not None:
            fcntl.flock(handle, fcntl.LOCK_EX)
    except OSError as error:
        raise RunFolderError(
            f"{place} cannot be locked: {error.strerror or error}. Without a lock, two processes could write there at once. "
            "Give a folder on a local disk with --out, or mount this file system with locks."
        ) from error


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """One process of this machine at a time; the kernel's lock on the folder dies with its holder."""
    try:
        handle = None if os.name == "nt" else os.open(folder, os.O_RDONLY)  # Windows cannot open a folder
    except OSError as error:
        raise RunFolderError(
            f"The folder {folder} cannot be opened: {error.strerror or error}. Give another folder with --out."
        ) from error
    try:
        if handle is not None:
            wait_for_lock(handle, folder)
        yield
    finally:
        if handle is not None:
            os.close(handle)
