"""A sweep as a program of its own, to be killed: `python -m sweep.program '{"name": ...}'`."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

TESTS = Path(__file__).parents[1]


def start(factory: dict, **options) -> subprocess.Popen[bytes]:
    """Run it in a process group of its own, with `factory`'s and `run`'s arguments."""
    command = [sys.executable, "-m", "sweep.program", json.dumps({"factory": factory, **options})]
    return subprocess.Popen(command, cwd=TESTS, start_new_session=True)


def until(condition: Callable[[], bool], timeout: float = 240.0) -> None:
    """Wait for it."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "this took too long"
        time.sleep(0.02)


def children(pid: int) -> list[int]:
    """The processes that a process started, but for Python's own helper."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
            command = (stat.parent / "cmdline").read_bytes()
        except OSError:
            continue
        if int(fields[1]) == pid and b"resource_tracker" not in command:
            found.append(int(stat.parent.name))
    return found


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background is born deaf to Ctrl-C
    from sweep.synthetic import Factory, run_sweep

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as the command does
    arguments = json.loads(sys.argv[1])
    run_sweep(Factory(**arguments.pop("factory")), **arguments)
