"""Optuna's journal file, made to survive `kill -9`.

Three things differ from Optuna's own backend. The lock is the kernel's (`flock`), which a dead process cannot leave behind:
Optuna's lock file would hold everyone up for its grace period of 30 seconds. And a line that a killed process left
unfinished is cut off before the next one is written: Optuna would write behind it, and never read the file again.
It waits for the disk once a second, not at every line. The file stays Optuna's, and `optuna-dashboard FILE` opens it.
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

FLUSH = 1.0  # seconds: what a power cut may cost; what is written survives the death of a process in any case


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Alone among the processes of this machine while inside; the lock dies with its holder."""
    with path.open("ab") as file:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield  # closing the file lets go


class Journal(JournalFileBackend):  # type: ignore[misc]  # Optuna is not type-checked here
    """A journal at `path`, locked through `path`.flock."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self._path = path
        self._flushed = -FLUSH

    @property
    def lock_path(self) -> Path:
        return self._path.with_name(self._path.name + ".flock")

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        text = "".join(json.dumps(log, separators=(",", ":")) + "\n" for log in logs)
        with exclusive(self.lock_path), self._path.open("r+b") as file:
            cut_unfinished_line(file)
            file.write(text.encode())
            file.flush()
            if time.monotonic() - self._flushed > FLUSH:
                os.fsync(file.fileno())
                self._flushed = time.monotonic()
