"""Commands that are killed, run out of disk, meet one another, or are sent into a folder of somebody else."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fault_commands as commands
from vispco.core.runs.run_record import check_complete

TRIALS = {"sweep": 3, "demo": 2}
MOST = {"search": 8, "demo": 24, "compare searches": 28}  # events of the long commands; of the others, all
FILLED = ("disk_full", "corrupt", "raw", "lost", "repeated", "different_numbers", "left_behind")
PAGE = 4096
WAIT = 20.0  # seconds in which workers notice that their sweep is dead


@dataclass(frozen=True)
class Undisturbed:
    """A command that nobody disturbed: its file events, its results, the files that it leaves, and their size."""

    events: tuple[str, ...]
    numbers: Any
    names: set[str]
    size: int

    @classmethod
    def run(cls, name: str, root: Path) -> Undisturbed:
        with folder(root) as parent:
            out = commands.place(parent, name)
            done = commands.run(name, out)
            assert done.code == 0, (name, done.text)
            size = sum(path.stat().st_size for path in parent.rglob("*") if path.is_file())
            return cls(done.events, commands.numbers(out), commands.names(out), size)


@dataclass
class Tally:
    """What went wrong, by kind, with the first cases of each."""

    counts: dict[str, int]
    cases: list[str] = field(default_factory=list)

    def add(self, kind: str, case: str, number: int = 1) -> None:
        self.counts[kind] += number
        if number and len(self.cases) < 20:
            self.cases.append(f"{kind}: {case}")
            print(f"  {kind}: {case}", flush=True)


@contextmanager
def folder(root: Path) -> Iterator[Path]:
    """A folder of its own for one case, removed at the end."""
    made = Path(tempfile.mkdtemp(dir=root))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)
        commands.kept_journal(made / "run").unlink(missing_ok=True)


def kill_points(events: Sequence[str], most: int | None) -> list[int]:
    """Numbers of events, from 1: all, or so many: where the kind of event changes first, then evenly among the rest."""
    every = list(range(1, len(events) + 1))
    if most is None or len(every) <= most:
        return every
    turns = [n for n in every if n == 1 or events[n - 1] != events[n - 2]]
    chosen = {turns[i * len(turns) // most] for i in range(min(most, len(turns)))}
    rest = [n for n in every if n not in chosen]
    missing = most - len(chosen)
    return sorted(chosen | {rest[i * len(rest) // missing] for i in range(missing)})


def finish(name: str, out: Path, known: Undisturbed, tally: Tally, case: str) -> None:
    """Run the same command again, and count what is wrong with its end."""
    done = commands.run(name, out)
    if done.code != 0:
        tally.add("lost", f"{case}: {done.text[-300:]}")
        return
    if commands.numbers(out) != known.numbers:
        tally.add("different_numbers", case)
    tally.add("repeated", case, commands.repeated(out, TRIALS.get(name, 0)))
    left = commands.names(out) ^ known.names
    tally.add("left_behind", f"{case}: {sorted(left)}", len(left))
    if out.is_dir():
        check_complete(out)


def kill(name: str, root: Path, known: Undisturbed) -> dict[str, Any]:
    """Kill -9 at file events, each in a fresh folder; then the same command again."""
    tally = Tally(dict.fromkeys(("kills", "lost", "repeated", "different_numbers", "left_behind"), 0))
    for at in kill_points(known.events, MOST.get(name)):
        with folder(root) as parent:
            out = commands.place(parent, name)
            done = commands.run(name, out, at=at)
            tally.counts["kills"] += done.code == -signal.SIGKILL
            finish(name, out, known, tally, f"{name}, event {at} ({known.events[at - 1]})")
    return {**tally.counts, "events": len(known.events), "cases": tally.cases}


def kill_in_a_row(name: str, root: Path, known: Undisturbed, runs: int, kills: int) -> dict[str, Any]:
    """The same run killed several times before it may end."""
    tally = Tally(dict.fromkeys(("kills", "lost", "repeated", "different_numbers", "left_behind"), 0))
    for number in range(runs):
        with folder(root) as parent:
            out = commands.place(parent, name)
            for turn in range(kills):
                at = 1 + (number * 7 + turn * len(known.events) // (kills + 1)) % len(known.events)
                tally.counts["kills"] += commands.run(name, out, at=at).code == -signal.SIGKILL
            finish(name, out, known, tally, f"{name}, {kills} kills in a row")
    return {**tally.counts, "cases": tally.cases}


def kill_processes(name: str, root: Path, known: Undisturbed, changes: Sequence[int]) -> dict[str, Any]:
    """The command line in a fresh process with its workers, killed from outside after so many changes in its folder."""
    tally = Tally(dict.fromkeys(("kills", "lost", "repeated", "different_numbers", "left_behind", "processes"), 0))
    for wanted in changes:
        with folder(root) as parent:
            out = commands.place(parent, name)
            given = [word if word != "0" else "2" for word in commands.arguments(name, out)]  # workers of a sweep
            process = subprocess.Popen(
                [sys.executable, "-m", "vispco", *given],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            _wait_for_changes(process, parent, wanted)
            process.kill()
            tally.counts["kills"] += process.wait() == -signal.SIGKILL
            case = f"{name}, a process of its own, after {wanted} changes"
            tally.add("processes", case, _alive(process.pid))
            finish(name, out, known, tally, case)
    tally.counts["left_behind"] += tally.counts["processes"]
    return {**tally.counts, "cases": tally.cases}


def _wait_for_changes(process: subprocess.Popen[bytes], parent: Path, wanted: int) -> None:
    seen, last = 0, None
    while process.poll() is None and seen < wanted:
        now = []
        for path in parent.rglob("*"):
            try:
                status = path.stat()
            except OSError:
                continue
            now.append((str(path), status.st_size, status.st_mtime_ns))
        if sorted(now) != last:
            seen, last = seen + 1, sorted(now)
        time.sleep(0.002)


def _alive(session: int) -> int:
    """Processes of a session that outlive their parent."""
    deadline = time.monotonic() + WAIT
    while True:
        alive = 0
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text(errors="replace").rpartition(")")[2].split()
            except OSError:
                continue
            alive += int(fields[3]) == session and fields[0] != "Z"
        if not alive or time.monotonic() > deadline:
            return alive
        time.sleep(0.1)


def fill_disk(name: str, root: Path, known: Undisturbed, levels: int) -> dict[str, Any]:
    """A real file system of a few pages, which the command fills; then it is enlarged, and the command runs again."""
    tally = Tally(dict.fromkeys(FILLED, 0))
    pages = max(1, known.size // PAGE)
    for level in range(levels):
        size = PAGE * (1 + level * pages // levels)
        with folder(root) as parent, _mounted(parent, size):
            out = commands.place(parent, name)
            done = commands.run(name, out)
            _mount("-o", "remount,size=64m", str(parent))
            _after_full(name, out, known, tally, done, f"{name}, a disk of {size} bytes")
    return {**tally.counts, "by": "tmpfs", "cases": tally.cases}


def no_space(name: str, root: Path, known: Undisturbed, most: int) -> dict[str, Any]:
    """From one file event on every write fails with ENOSPC; then the command runs again."""
    tally = Tally(dict.fromkeys(FILLED, 0))
    for at in kill_points(known.events, most):
        with folder(root) as parent:
            out = commands.place(parent, name)
            done = commands.run(name, out, at=at, full=True)
            _after_full(name, out, known, tally, done, f"{name}, no space from event {at} ({known.events[at - 1]})")
    return {**tally.counts, "by": "ENOSPC", "cases": tally.cases}


def _after_full(name: str, out: Path, known: Undisturbed, tally: Tally, done: commands.Outcome, case: str) -> None:
    tally.counts["disk_full"] += done.code != 0
    if done.raw or done.code not in (0, 1):
        tally.add("raw", f"{case}: {done.text[-300:]}")
    before = tally.counts["lost"] + tally.counts["different_numbers"]
    unreadable = _unreadable(out)
    tally.add("corrupt", f"{case}: {unreadable}", len(unreadable))
    finish(name, out, known, tally, case)
    tally.counts["corrupt"] += tally.counts["lost"] + tally.counts["different_numbers"] - before


@contextmanager
def _mounted(parent: Path, size: int) -> Iterator[None]:
    _mount("-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(parent))
    try:
        yield
    finally:
        subprocess.run([shutil.which("umount") or "umount", str(parent)], check=True)


def _mount(*options: str) -> None:
    subprocess.run([shutil.which("mount") or "mount", *options], check=True)


def _unreadable(out: Path) -> list[str]:
    found = []
    for file in out.rglob("*.json") if out.is_dir() else [out] if out.exists() else []:
        try:
            json.loads(file.read_text())
        except ValueError:
            found.append(file.name)
    return found


def two_at_once(root: Path, wanted: int) -> dict[str, int]:
    """Two searches with other settings in one folder, at the same time or one killed before: one folder, one run."""
    name, mixed, refused = "search by a line", 0, 0
    for number in range(wanted):
        with folder(root) as parent:
            out = commands.place(parent, name)
            if number % 2:
                commands.run(name, out, more=("--scorer", "random"), at=40 + 5 * number)
                theirs = -1
                ours = commands.run(name, out).code
                commands.run(name, out, more=("--scorer", "random"))
            else:
                child = os.fork()
                if child == 0:
                    os._exit(0 if commands.run(name, out, more=("--scorer", "random")).code == 0 else 1)
                ours = commands.run(name, out).code
                theirs = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            record = check_complete(out)
            config = json.loads((out / "config.json").read_text())
            assert record is not None
            mixed += record.settings["scorer"] != config["scorer"] or (ours == 0 and theirs == 0)
            refused += (ours != 0) + (theirs > 0)
    return {"pairs": wanted, "mixed_runs": mixed, "refused": refused}


def foreign(root: Path) -> dict[str, Any]:
    """Every command into a folder, or over a file, that is somebody else's, and over a run of another kind."""
    tally = Tally({"foreign_files_touched": 0})
    cases = 0
    mine = ("config.json", "model.safetensors", "report.html", "notes.txt", "methods.json", "comparison.json")
    for name, more in itertools.product(commands.COMMANDS, ((), ("--overwrite",))):
        with folder(root) as parent:
            for file in mine:
                (parent / file).write_text("mine")
            out = parent / "config.json" if name == "evaluate" else parent
            done = commands.run(name, out, more=more)
            changed = [path.name for path in parent.iterdir() if path.name not in mine or path.read_text() != "mine"]
            missing = [file for file in mine if not (parent / file).exists()]
            cases += 1
            if done.code == 0 or changed or missing:
                tally.add(
                    "foreign_files_touched", f"{name} {more}: {changed} {missing}", len(changed) + len(missing) or 1
                )
    return {"tried": cases, **tally.counts, "cases": tally.cases}
