"""Which sweeps are alive: each says so in the study while it runs, and the others look.

Optuna's heartbeat is for `Study.optimize` on databases alone; this one works on every storage, and costs one line every
quarter of a minute. A process of this machine is looked up at once; one of another machine counts as dead when its
record has not changed for `STALE` seconds of *our* clock, so the clocks need not agree.
"""

from __future__ import annotations

import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

BEAT = 15.0  # seconds between two signs of life
STALE = 75.0  # seconds without one after which a sweep counts as dead
UNOWNED = 20.0  # seconds that a trial may run without saying whose it is
PULSE = "run:"  # and the sweep's name: where it says so

Record = Mapping[str, Any]


def machine() -> str:
    """This machine, boot and process namespace: two containers of one name are not one machine."""
    parts = [socket.gethostname()]
    for source in ("/proc/sys/kernel/random/boot_id", "/proc/self/ns/pid"):
        path = Path(source)
        try:
            parts.append(str(path.readlink()) if path.is_symlink() else path.read_text(encoding="ascii").strip())
        except OSError:
            parts.append("-")
    return "/".join(parts)


def started(pid: int) -> str | None:
    """When a process of this machine started, in the kernel's ticks; None when there is no such process."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except OSError:
        pass  # it exists, and belongs to someone else
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    except OSError:
        return "-"  # no /proc here: that it exists is all we know
    return None if fields[0] in "ZX" else fields[19]


class Pulse:
    """Says that this sweep is alive, from a thread of its own."""

    def __init__(self, write: Callable[[str, dict[str, Any]], None]) -> None:
        self.run = uuid.uuid4().hex
        self._write = write
        self._record = {"machine": machine(), "pid": os.getpid(), "started": started(os.getpid())}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="vispco-pulse", daemon=True)

    def __enter__(self) -> Self:
        self._write(PULSE + self.run, {**self._record, "beat": 0})
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._write(PULSE + self.run, {**self._record, "ended": True})

    def _beat(self) -> None:
        count = 0
        while not self._stop.wait(BEAT):
            count += 1
            try:
                self._write(PULSE + self.run, {**self._record, "beat": count})
            except Exception:  # noqa: BLE001, S112  # a database that stumbles: the next beat, or the sweep itself, will tell
                continue


class Watch:
    """Judges other sweeps by their records."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[str, float]] = {}

    def abandoned(self, trial: int, owner: str | None, records: Mapping[str, Any]) -> bool:
        """Whether nobody runs this trial any more, by what sweeps say in the study."""
        if owner is None:
            return self.unchanged(f"trial {trial}", "unowned") > UNOWNED
        return self.dead(owner, records.get(PULSE + owner))

    def dead(self, run: str, record: Record | None) -> bool:
        """Whether the sweep `run`, whose record this is, has ended or died."""
        if record is not None:
            if record.get("ended"):
                return True
            if record.get("machine") == machine():
                return started(int(record["pid"])) != record.get("started")
        return self.unchanged(run, str(record)) > STALE

    def unchanged(self, what: str, state: str) -> float:
        """For how many seconds we have seen `what` in this very state."""
        now = time.monotonic()
        before, since = self._seen.get(what, (None, now))
        if before != state:
            since = now
        self._seen[what] = (state, since)
        return now - since
