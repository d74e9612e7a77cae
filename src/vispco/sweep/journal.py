"""Optuna's journal file, made to survive `kill -9`.

It differs from Optuna's own backend in four ways:

- The lock is the kernel's (`flock`), which a dead process cannot leave behind. Optuna's lock file would block everyone for
  its grace period of 30 seconds.
- A line that a killed process left unfinished is cut off before the next one is written. Optuna would append to it and
  could not read the file again.
- It waits for the disk once a second, not after every line.
- Each line has a checksum, and a damaged line is refused by its number. Optuna would take a changed digit for a result.

The file format is Optuna's: `optuna-dashboard FILE` opens it.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from optuna.storages.journal import JournalFileBackend

from vispco.core.runs.checksums import decode_line, encode_line
from vispco.core.runs.files import DamagedFileError, cut_unfinished_line
from vispco.core.runs.run_record import wait_for_lock

_SYNC_SECONDS = 1.0  # what a power cut may lose; the death of a process loses nothing that was written


@contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Hold an exclusive lock among the processes of this machine. It is released when its holder dies."""
    with path.open("ab") as file:
        wait_for_lock(file.fileno(), path)
        yield  # closing the file releases the lock


class SweepJournal(JournalFileBackend):  # type: ignore[misc]  # Optuna is not type-checked here
    """A journal at `path`, locked through `path`.flock."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self._path = path
        self._last_sync = -_SYNC_SECONDS
        self._offsets = {0: 0}  # number of a line -> where it starts

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        data = b"".join(encode_line(log) for log in logs)
        lock = self._path.with_name(f"{self._path.name}.flock")
        with file_lock(lock), self._path.open("r+b") as file:
            cut_unfinished_line(file)
            file.write(data)
            file.flush()
            if time.monotonic() - self._last_sync > _SYNC_SECONDS:
                os.fsync(file.fileno())
                self._last_sync = time.monotonic()

    def read_logs(self, log_number_from: int) -> Iterator[dict[str, Any]]:
        """Return one operation for every whole line from this number on."""
        with self._path.open("rb") as file:
            file.seek(self._offsets[log_number_from])
            lines = file.read().split(b"\n")[:-1]  # the last one is empty or unfinished
        for number, line in enumerate(lines, start=log_number_from):
            log = decode_line(line)
            if log is None or "op_code" not in log:
                raise DamagedFileError(
                    f"The journal {self._path} is damaged: line {number + 1} is not what was written. Restore it. Or move it "
                    "away to begin again; what was evaluated so far is in the frontier files beside it."
                )
            self._offsets[number + 1] = self._offsets[number] + len(line) + 1
            yield log


def is_foreign_file(path: Path) -> bool:
    """Whether a file with content has no line of a journal, so that nothing may be written to it."""
    if not path.exists() or path.stat().st_size == 0:
        return False
    with path.open("rb") as file:
        return not any(line.startswith(b'{"op_code":') for line in file)
