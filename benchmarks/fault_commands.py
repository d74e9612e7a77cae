"""Commands for the fault suite: small, run in forked children of a process that has loaded the model.

A child can be killed, or told that the disk is full, at one file event: every open for writing, rename, removal, mkdir
and truncation below the folder that it was given, each just before it happens.
"""

from __future__ import annotations

import errno
import io
import json
import os
import re
import resource
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch

from vispco.cli import main
from vispco.core.runs.checksums import decode_line
from vispco.models import loading

MODEL = "tiny-llava"
TASK = ("--tasks", "attribute")
LINE = ("--mode", "line", "--kernel", "single")
DEMO = (*TASK, *LINE, "--budgets", "0.5", "--samples", "2", "--test", "1", "--examples", "1", "--trials", "2")
COMMANDS: dict[str, tuple[str, ...]] = {
    "search": (
        *("search", MODEL, *TASK, "--scorers", "fastv,random", "--budgets", "0.5"),
        *("--samples", "1", "--test", "1", "--examples", "1"),
    ),
    "search by a line": (
        *("search", MODEL, *TASK, *LINE, "--budgets", "0.5"),
        *("--samples", "2", "--test", "1", "--examples", "0"),
    ),
    "sweep": ("sweep", MODEL, *TASK, "--limit", "1", "--strategy", "random", "--trials", "3", "--workers", "0"),
    "compare searches": (
        *("compare", "searches", MODEL, *TASK, "--methods", "vtw,random-2", "--samples", "1", "--test", "1"),
    ),
    "compare methods": (
        *("compare", "methods", MODEL, *TASK, "--methods", "fastv,vtw", "--search", "none", "--draws", "1"),
        *("--rounds", "0", "--budgets", "0.5", "--samples", "1", "--test", "1"),
    ),
    "evaluate": ("evaluate", MODEL, *TASK, "--limit", "1", "--schedule", "single:2:0.5"),
    "demo": ("demo", "--model", MODEL, *DEMO, "--timed", "0.5", "--rounds", "1", "--batch-size", "1", "--threads", "1"),
}
WRITES = os.O_WRONLY | os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_TRUNC
CHANGES = ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate")
TEMPORARY = re.compile(r"(\.vispco)?-\d+-\d+\.tmp$|^tmp\w+$")  # what differs in temporary names
SEARCH_JOURNAL, SWEEP_JOURNAL = "journal.jsonl", "journal.log"
COMPLETE = 1  # a finished trial, in Optuna's numbers
TIMED = re.compile(r"seconds|_ms$|ms_|tokens_per_second|ttft|speedup|clock|time")
UNLIKE = ("created", "provenance", "machine", "command", "options", "out", "report", "bytes", "checksum", "run")


@dataclass(frozen=True)
class Outcome:
    """code: the exit status, negative for a signal. events: what it did to which file. text: what was printed."""

    code: int
    events: tuple[str, ...]
    text: str

    @property
    def raw(self) -> bool:
        """Whether the message names a Python exception, or is a traceback."""
        return "Traceback" in self.text or "--debug" in self.text

    @property
    def refusal(self) -> str:
        """The sentence of a command that refused."""
        return self.text[self.text.rfind("error: ") :].strip()


@cache
def loaded() -> tuple[Any, Any]:
    return loading.load(MODEL)


def prepare(*names: str) -> None:
    """Load everything once; children are forked from here.

    names: commands that are run here once, so that no child has to import what they import.
    """
    torch.set_num_threads(1)
    first = loaded()
    loading.load = lambda *_, **__: first  # type: ignore[assignment]
    given = sys.argv
    for name in names:
        with tempfile.TemporaryDirectory() as temporary, redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            sys.argv = ["vispco", *arguments(name, place(Path(temporary), name))]
            try:
                main.run()
            except SystemExit as left:
                assert not left.code, name  # noqa: PT017 - not a test
    sys.argv = given


def place(parent: Path, name: str) -> Path:
    """Where a command writes, below a folder of its own."""
    return parent / ("result.json" if name == "evaluate" else "run")


def arguments(name: str, out: Path) -> list[str]:
    """A command as a person types it."""
    return [*COMMANDS[name], "--out", str(out)]


def run(
    name: str, out: Path, *, more: tuple[str, ...] = (), at: int | None = None, full: bool = False, instead: Any = None
) -> Outcome:
    """One command in a child.

    at: the file event at which it is killed; full: or from which on there is no space left. instead: another command.
    """
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        _child([*(instead or arguments(name, out)), *more], out, write, at, full=full)
    os.close(write)
    with os.fdopen(read, "rb") as stream:
        told = stream.read().decode("utf-8", "replace")
    _, status = os.waitpid(child, 0)
    head, _, text = told.partition("\n")
    return Outcome(os.waitstatus_to_exitcode(status), tuple(json.loads(head or "[]")), text)


def _child(
    given: list[str], out: Path, pipe: int, at: int | None, *, full: bool
) -> None:  # pragma: no cover - ends by _exit
    folder, ended = str(out.parent), False
    events: list[str] = []

    def hook(event: str, details: tuple[Any, ...]) -> None:
        if ended or not (path := _changed(event, details)).startswith(folder):
            return
        events.append(f"{event} {TEMPORARY.sub('', path.rpartition('/')[2])}")
        if path.endswith(SEARCH_JOURNAL) and event == "os.remove":
            shutil.copy(path, kept_journal(out))
        if at is None or len(events) < at:
            return
        if not full:
            os.kill(os.getpid(), signal.SIGKILL)
        if event not in ("os.remove", "os.rmdir"):  # they need no space
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    said = io.StringIO()
    code = 0
    sys.argv = ["vispco", *given]
    sys.addaudithook(hook)
    try:
        with redirect_stdout(said), redirect_stderr(said):
            main.run()
    except SystemExit as left:
        code = int(left.code or 0)
    except BaseException as error:  # noqa: BLE001 - whatever it was, it is raw
        code = 70
        said.write(f"Traceback: {type(error).__name__}: {error}")
    ended = True
    os.write(pipe, f"{json.dumps(events)}\n{said.getvalue()[-3000:]}".encode())
    os._exit(code)


def _changed(event: str, details: tuple[Any, ...]) -> str:
    """The path that an event is about to change; empty for none."""
    if event == "open":
        changes = isinstance(details[0], str) and bool((details[2] or 0) & WRITES)
        return str(details[0]) if changes else ""
    if event not in CHANGES or not isinstance(details[0], str | os.PathLike):
        return ""
    path, handle = os.fspath(details[0]), details[-1]
    if isinstance(path, str) and not path.startswith("/") and isinstance(handle, int) and handle >= 0:
        path = os.path.join(os.readlink(f"/proc/self/fd/{handle}"), path)  # noqa: PTH118, PTH115 - inside an audit hook
    return str(path)


def kept_journal(out: Path) -> Path:
    """Where the journal of a search is kept for us when the search removes it."""
    return out.parent.with_name(f"{out.parent.name}.{SEARCH_JOURNAL}")


def numbers(out: Path) -> Any:
    """All results of a folder or file, without times, paths and provenance."""
    files = sorted(out.rglob("*.json*")) if out.is_dir() else [out]
    found: dict[str, Any] = {}
    for file in files:
        if file.name == "run.json" or file.name.endswith(".run.json"):
            continue
        text = file.read_text()
        lines = [json.loads(line) for line in text.splitlines()] if file.suffix == ".jsonl" else json.loads(text)
        if file.name == "demo.json":  # seconds by stage
            lines["stages"] = sorted(lines["stages"])
        found[str(file.relative_to(out.parent))] = plain(lines)
    return found


def plain(value: Any) -> Any:
    """Data without what differs from run to run."""
    if isinstance(value, Mapping):
        return {key: plain(inner) for key, inner in value.items() if key not in UNLIKE and not TIMED.search(str(key))}
    return [plain(inner) for inner in value] if isinstance(value, list | tuple) else value


def names(out: Path) -> set[str]:
    """Every file below the folder that a command was given, and the folder's own neighbours."""
    return {str(path.relative_to(out.parent)) for path in out.parent.rglob("*")}


def repeated(out: Path, trials: int) -> int:
    """Pieces of work that were done although their result was on disk already: trials, journal entries, table rows."""
    found = 0
    journal = kept_journal(out)
    if journal.is_file():
        entries = Counter((decode_line(line) or {}).get("name") for line in journal.read_bytes().splitlines())
        found += sum(entries.values()) - len(entries)
    for file in out.rglob(SWEEP_JOURNAL) if out.is_dir() else ():
        operations = [decode_line(line) or {} for line in file.read_bytes().splitlines()]
        complete = [each for each in operations if each.get("op_code") == 6 and each.get("state") == COMPLETE]
        found += max(0, len(complete) - trials)
    for file in (*out.rglob("comparison.json"), *out.rglob("methods.json")) if out.is_dir() else ():
        rows = [(row["method"], row.get("kind"), row.get("budget")) for row in json.loads(file.read_text())["rows"]]
        found += len(rows) - len(set(rows))
    return found


def seconds_used() -> float:
    """Processor seconds of this process and of its children so far."""
    own, theirs = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in (own, theirs))
