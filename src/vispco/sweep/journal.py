"""Optuna's journal file, made to survive `kill -9`.

It differs from Optuna's own backend in three ways:

- The lock is the kernel's (`flock`), which a dead process cannot leave behind. Optuna's lock file would block everyone for
  its grace period of 30 seconds.
- A line that a killed process left unfinished is cut off before the next one is written. Optuna would append to it and
  could not read the file again.
- It waits for the disk once a second, not after every line.

The file format is Optuna's: `optuna-dashboard FILE` opens it.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from optuna.storages.journal import JournalFileBackend

from vispco.files import cut_unfinished_line

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

try:
    import fcntl
except ImportError:  # pragma: no cover  # Windows has none
    fcntl = None  # type: ignore[assignment]

SYNC_SECONDS = 1.0  # what a power cut may lose; the death of a process loses nothing that was written


@contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Hold an exclusive lock among the processes of this machine. It is released when its holder dies."""
    with path.open("ab") as file:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield  # closing the file releases the lock


class SweepJournal(JournalFileBackend):  # type: ignore[misc]  # Optuna is not type-checked here
    """A journal at `path`, locked through `path`.flock."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self._path = path
        self._last_sync = -SYNC_SECONDS

    @property
    def lock_path(self) -> Path:
        return self._path.with_name(self._path.name + ".flock")

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        text = "".join(json.dumps(log, separators=(",", ":")) + "\n" for log in logs)
        with file_lock(self.lock_path), self._path.open("r+b") as file:
            cut_unfinished_line(file)
            file.write(text.encode())
            file.flush()
            if time.monotonic() - self._last_sync > SYNC_SECONDS:
                os.fsync(file.fileno())
                self._last_sync = time.monotonic()
