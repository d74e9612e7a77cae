"""Heartbeats, which tell live sweeps from dead ones: each writes a heartbeat to the study, and the others read it.

Optuna's heartbeat works for `Study.optimize` on databases only. This one works on every storage and writes one line every
15 seconds. A process on the same machine is looked up directly. One on another machine counts as dead when its record has
not changed for `_STALE_SECONDS` of the local clock, so clocks need not agree.
"""

import os
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Self

from vispco.core.runs.provenance import machine_id
from vispco.core.runs.provenance import process_start as start_time

_BEAT_SECONDS = 15.0
_STALE_SECONDS = 75.0  # a sweep without a heartbeat for this long counts as dead
_UNOWNED_SECONDS = 20.0  # how long a trial may run before it names its sweep
_KEY_PREFIX = "run:"  # followed by the id of the sweep: the study attribute that holds its heartbeat


class Heartbeat:
    """Writes that this sweep is alive, from a thread of its own."""

    def __init__(self, write: Callable[[str, dict[str, Any]], None]) -> None:
        self.run = uuid.uuid4().hex
        self._write = write
        self._record = {"machine": machine_id(), "pid": os.getpid(), "started": start_time(os.getpid())}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="vispco-heartbeat", daemon=True)

    def __enter__(self) -> Self:
        self._write(_KEY_PREFIX + self.run, {**self._record, "beat": 0})
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._write(_KEY_PREFIX + self.run, {**self._record, "ended": True})

    def _beat(self) -> None:
        count = 0
        while not self._stop.wait(_BEAT_SECONDS):
            count += 1
            try:
                self._write(_KEY_PREFIX + self.run, {**self._record, "beat": count})
            except Exception:  # noqa: BLE001, S112  # a database may fail once; the next beat or the sweep itself reports it
                continue


class HeartbeatMonitor:
    """Decides from heartbeats which sweeps are dead."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[str, float]] = {}

    def is_abandoned(self, trial: int, owner: str | None, records: Mapping[str, Any]) -> bool:
        """Whether the sweep `owner` that evaluates this trial is dead. records: the attributes of the study."""
        if owner is None:
            return self.seconds_unchanged(f"trial {trial}", "unowned") > _UNOWNED_SECONDS
        return self.is_dead(owner, records.get(_KEY_PREFIX + owner))

    def is_dead(self, run: str, record: Mapping[str, Any] | None) -> bool:
        """Whether the sweep `run` with this heartbeat has ended or died."""
        if record is not None:
            if record.get("ended"):
                return True
            if record.get("machine") == machine_id():
                return start_time(int(record["pid"])) != record.get("started")
        return self.seconds_unchanged(run, str(record)) > _STALE_SECONDS

    def seconds_unchanged(self, name: str, state: str) -> float:
        """Return for how many seconds `name` has been seen in this state."""
        now = time.monotonic()
        before, since = self._seen.get(name, (None, now))
        if before != state:
            since = now
        self._seen[name] = (state, since)
        return now - since
