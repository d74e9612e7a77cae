"""Commands for the fault suite: small, run in a forked child that can be killed or refused the disk at one file event."""

from __future__ import annotations

import errno
import io
import json
import os
import resource
import signal
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch

from vispco import loading
from vispco.cli import main

MODEL = "tiny-llava"
TASK = ("--tasks", "attribute")
LINE = ("--mode", "line", "--kernel", "single", "--budgets", "0.5")
COMMANDS: dict[str, tuple[str, ...]] = {
    "search": ("search", MODEL, *TASK, *LINE, "--samples", "2", "--test", "1", "--examples", "1"),
    "sweep": ("sweep", MODEL, *TASK, "--limit", "1", "--strategy", "random", "--trials", "3", "--workers", "0"),
    "compare": ("compare", "searches", MODEL, *TASK, "--methods", "vtw,random-2", "--samples", "1", "--test", "1"),
    "evaluate": ("evaluate", MODEL, *TASK, "--limit", "1", "--schedule", "single:2:0.5"),
    "demo": (
        *("demo", "--model", MODEL, *TASK, *LINE, "--samples", "2", "--test", "1", "--trials", "2", "--timed", "0.5"),
        *("--rounds", "1", "--batch-size", "1", "--examples", "1", "--threads", "1"),
    ),
}
WRITES = os.O_WRONLY | os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_TRUNC
CHANGES = ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate")
TIMES = (
    "seconds",
    "search_seconds",
    "created",
    "provenance",
    "machine",
    "command",
    "options",
    "out",
    "report",
    "bytes",
)


@dataclass(frozen=True)
class Outcome:
    """code: the exit status, negative for a signal. events: file events in the folder. text: what was printed."""

    code: int
    events: int
    text: str

    @property
    def raw(self) -> bool:
        """Whether the message names a Python exception, or is a traceback."""
        return "Traceback" in self.text or "--debug" in self.text


@cache
def loaded() -> tuple[Any, Any]:
    return loading.load(MODEL)


def prepare() -> None:
    """Load everything once; children are forked from here."""
    torch.set_num_threads(1)
    first = loaded()
    loading.load = lambda *_, **__: first  # type: ignore[assignment]


def run(
    name: str,
    out: Path,
    *,
    more: tuple[str, ...] = (),
    at: int | None = None,
    action: str = "kill",
    bytes_left: int | None = None,
) -> Outcome:
    """One command in a child. at: the file event at which it is killed, or told that the disk is full."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        _child([*COMMANDS[name], "--out", str(out), *more], out, write, at, action, bytes_left)
    os.close(write)
    with os.fdopen(read, "rb") as stream:
        told = stream.read().decode("utf-8", "replace")
    _, status = os.waitpid(child, 0)
    head, _, text = told.partition("\n")
    return Outcome(os.waitstatus_to_exitcode(status), int(head or 0), text)


def _child(
    arguments: list[str], out: Path, pipe: int, at: int | None, action: str, bytes_left: int | None
) -> None:  # pragma: no cover - ends by _exit
    folder, count = str(out.parent), 0

    def hook(event: str, details: tuple[Any, ...]) -> None:
        nonlocal count
        if event == "open":
            changes = isinstance(details[0], str) and bool((details[2] or 0) & WRITES)
        else:
            changes = event in CHANGES and isinstance(details[0], str | os.PathLike)
        if not changes or not os.fspath(details[0]).startswith(folder):
            return
        count += 1
        if count != at:
            return
        if action == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), os.fspath(details[0]))

    said = io.StringIO()
    code = 0
    try:
        if bytes_left is not None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_left, resource.RLIM_INFINITY))
        sys.argv = ["vispco", *arguments]
        sys.addaudithook(hook)
        with redirect_stdout(said), redirect_stderr(said):
            main.run()
    except SystemExit as left:
        code = int(left.code or 0)
    except BaseException as error:  # noqa: BLE001 - whatever it was, it is raw
        code = 70
        said.write(f"Traceback: {type(error).__name__}: {error}")
    at = None
    if bytes_left is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    os.write(pipe, f"{count}\n{said.getvalue()[-3000:]}".encode())
    os._exit(code)


def numbers(out: Path) -> Any:
    """All results of a folder or file, without times, paths and provenance."""
    files = sorted(out.rglob("*.json")) if out.is_dir() else [out]
    skip = ("run.json", "bench.json", "demo.json", "examples.json")
    return {
        file.name: _plain(json.loads(file.read_text()))
        for file in files
        if file.name not in skip and not file.name.endswith(".run.json")
    }


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items() if key not in TIMES and "seconds" not in key}
    return [_plain(inner) for inner in value] if isinstance(value, list) else value


def left_behind(out: Path) -> list[str]:
    """Temporary files, locks and journals that a finished run has no use for."""
    place = out if out.is_dir() else out.parent
    return [
        path.name
        for path in place.rglob("*")
        if path.suffix in (".tmp", ".part") or path.name in ("run.lock", "journal.jsonl")
    ]


def repeated(out: Path) -> int:
    """Configurations of a sweep or a comparison that were evaluated more than once."""
    found = 0
    for file in out.rglob("*.frontier.json") if out.is_dir() else ():
        schedules = [json.dumps(point["schedule"]) for point in json.loads(file.read_text())["points"]]
        found += len(schedules) - len(set(schedules))
    for file in out.rglob("comparison.json") if out.is_dir() else ():
        methods = [row["method"] for row in json.loads(file.read_text())["rows"]]
        found += len(methods) - len(set(methods))
    return found


Check = Callable[[Path], Any]
