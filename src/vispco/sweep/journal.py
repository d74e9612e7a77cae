"""Optuna's journal file, made to survive `kill -9`.

It differs from Optuna's own backend in four ways:

- The lock is the kernel's (`flock`), which a dead process cannot leave behind. Optuna's lock file would block everyone for
  its grace period of 30 seconds.
- A line that a killed process left unfinished is cut off before the next one is written. Optuna would append to it and
  could not read the file again.
- It waits for the disk once a second, not after every line.
- Each line has a checksum. A damaged line is replaced on reading by one that changes nothing, or by a failed trial if it
  created a trial, because Optuna numbers trials by their order in the file. What the line said is evaluated again.

The file format is Optuna's: `optuna-dashboard FILE` opens it.
"""

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from optuna.storages.journal import JournalFileBackend

from vispco.core.runs.checksums import decode_line, encode_line
from vispco.core.runs.files import cut_unfinished_line
from vispco.core.runs.run_record import wait_for_lock

_CREATE_STUDY, _SET_STUDY_ATTRIBUTE, _CREATE_TRIAL = 0, 2, 4  # operation codes of Optuna
# by operation code: what a line must have besides "worker_id"
_REQUIRED_KEYS = {
    _CREATE_STUDY: ("study_name", "directions"),
    1: ("study_id",),
    _SET_STUDY_ATTRIBUTE: ("study_id", "user_attr"),
    3: ("study_id", "system_attr"),
    _CREATE_TRIAL: ("study_id", "datetime_start"),
    5: ("trial_id", "param_name", "param_value_internal", "distribution"),
    6: ("trial_id", "state", "values"),
    7: ("trial_id", "step", "intermediate_value"),
    8: ("trial_id", "user_attr"),
    9: ("trial_id", "system_attr"),
    10: (),
}
_LINE_BREAK = re.compile(rb'\n|(?<=\d\})[^\n](?=\{"op_code":)')  # also a damaged one: one byte between two whole lines
STUDY_COPY = "vispco:copy"  # a study attribute: name and settings again, in case that their own line is damaged
_FAILED_STATE = 3  # of Optuna's trials
_EPOCH = "1970-01-01T00:00:00"
_SYNC_SECONDS = 1.0  # what a power cut may lose; the death of a process loses nothing that was written


@contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Hold an exclusive lock among the processes of this machine. It is released when its holder dies."""
    with path.open("ab") as file:
        wait_for_lock(file.fileno(), path)
        yield  # closing the file releases the lock


class SweepJournal(JournalFileBackend):  # type: ignore[misc]  # Optuna is not type-checked here
    """A journal at `path`, locked through `path`.flock. `damaged_lines` counts those that were skipped so far."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self._path = path
        self._last_sync = -_SYNC_SECONDS
        self._offsets = {0: 0}  # number of a line -> where it starts
        self._studies: list[str] = []  # names, in the order of their creation
        self._num_trials = 0
        self._num_read = 0
        self.damaged_lines = 0

    @property
    def lock_path(self) -> Path:
        return self._path.with_name(self._path.name + ".flock")

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        data = b"".join(encode_line(log) for log in logs)
        with file_lock(self.lock_path), self._path.open("r+b") as file:
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
            lines = _LINE_BREAK.split(file.read())[:-1]  # the last one is empty or unfinished
        logs = [decode_operation(line) for line in lines]
        for index, line in enumerate(lines):
            number = log_number_from + index
            self._offsets[number + 1] = self._offsets[number] + len(line) + 1
            log = logs[index]
            if log is None:
                log = self._replacement(line, logs[index + 1 :])
            if number >= self._num_read:
                self._num_read += 1
                self.damaged_lines += logs[index] is None
                if log["op_code"] == _CREATE_STUDY and log["study_name"] not in self._studies:
                    self._studies.append(log["study_name"])
                self._num_trials += log["op_code"] == _CREATE_TRIAL
            yield log

    def _replacement(self, line: bytes, later: list[dict[str, Any] | None]) -> dict[str, Any]:
        """Return the operation that stands in for a damaged line, by what can be read of it and of the later lines."""
        operation, study = _integer("op_code", line), _integer("study_id", line)
        if operation == _CREATE_STUDY or not self._studies:
            copies = (_study_copy(log, len(self._studies)) for log in later)
            name = next((copy for copy in copies if copy is not None), f"damaged-{len(self._studies)}")
            return {"op_code": _CREATE_STUDY, "worker_id": "damaged", "study_name": name, "directions": [1, 2]}
        if operation == _CREATE_TRIAL or (operation is None and self._refers_to_missing_trial(later)):
            return {
                "op_code": _CREATE_TRIAL,
                "worker_id": "damaged",
                "study_id": len(self._studies) - 1 if study is None else study,
                "state": _FAILED_STATE,
                "datetime_start": _EPOCH,
                "datetime_complete": _EPOCH,
                "user_attrs": {"dropped": "Its line of the journal was damaged."},
            }
        return {"op_code": _SET_STUDY_ATTRIBUTE, "worker_id": "damaged", "study_id": -1, "user_attr": {}}  # no effect

    def _refers_to_missing_trial(self, later: list[dict[str, Any] | None]) -> bool:
        """Whether the later lines count on one trial more than were created."""
        num_trials = self._num_trials
        for log in later:
            if log is not None:
                num_trials += log["op_code"] == _CREATE_TRIAL
                if log.get("trial_id", -1) >= num_trials:
                    return True
        return False


def decode_operation(line: bytes) -> dict[str, Any] | None:
    """Return the operation of a line; None if the line is damaged."""
    log = decode_line(line)
    if log is None or not isinstance(log.get("op_code"), int) or log["op_code"] not in _REQUIRED_KEYS:
        return None
    keys = ("worker_id", *_REQUIRED_KEYS[log["op_code"]])
    if any(key not in log for key in keys) or not isinstance(log.get("trial_id", 0), int):
        return None
    return log


def is_foreign_file(path: Path) -> bool:
    """Whether a file with content has no line of a journal, so that nothing may be written to it."""
    if not path.exists() or path.stat().st_size == 0:
        return False
    with path.open("rb") as file:
        return not any(decode_operation(line) is not None or line.startswith(b'{"op_code":') for line in file)


def _integer(key: str, line: bytes) -> int | None:
    match = re.search(rb'"%b":\s*(\d+)[,}]' % key.encode(), line)
    return None if match is None else int(match[1])


def _study_copy(log: dict[str, Any] | None, study: int) -> str | None:
    """Return the name of a study by its attribute `STUDY_COPY`, None if `log` does not set it."""
    if log is None or log["op_code"] != _SET_STUDY_ATTRIBUTE or log["study_id"] != study:
        return None
    copy = log["user_attr"].get(STUDY_COPY)
    return None if copy is None else str(copy["name"])
