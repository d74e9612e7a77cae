"""Do the tests notice a fault in a line? A fixed sample of mutants of the package, each run against the tests of its place.

python benchmarks/mutants.py [--processes 2] [--only TEXT]

First every test of `mutations.PLACES` runs once and is watched for the lines that it executes. Then each mutant is put into a copy of
the package, and the tests that execute its line run until one fails; where there is none, those that use its file. A test
that hangs has noticed, too. Verdicts are kept in build/mutants: a run that was stopped goes on, and after a change of the
sources the test that killed a mutant before is tried first. Mutants that nobody could notice are in
equivalent_mutants.toml, with the reason.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import os
import pickle
import shutil
import signal
import sys
import tempfile
import threading
import time
import tomllib
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from figures import Figure, write
from mutations import PLACES, ROOT, SEED, SOURCE, Mutant, sample

BUILD, EQUIVALENT = ROOT / "build" / "mutants", Path(__file__).parent / "equivalent_mutants.toml"
LONGEST = 60.0  # seconds of work, as recorded, of the tests that a mutant is shown to
MOST_FILES = 50_000  # that a mutant may make
PATIENCE = 60.0, 5.0  # a test hangs after so many seconds, and so many times the recorded ones
PRELOADED = ("torch", "transformers", "hypothesis", "pytest", "numpy", "PIL.Image", "tiny")  # never the package itself


class WatchedTests:
    """A plugin of pytest: runs the `wanted` tests in their order, or all of them while it watches their lines."""

    def __init__(self, wanted: list[str] | None = None) -> None:
        self.order = None if wanted is None else {name: number for number, name in enumerate(wanted)}
        self.failed: list[str] = []
        self.seconds: dict[str, float] = {}
        self.work: dict[str, float] = {}
        self.lines: dict[str, set[tuple[str, int]]] = {}

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        if self.order is not None:
            order = self.order
            items[:] = sorted((i for i in items if i.nodeid in order), key=lambda item: order[item.nodeid])

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.failed.append(report.nodeid)
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.work[nodeid] = time.process_time()
        if self.order is not None:
            return
        found, root = self.lines.setdefault(nodeid, set()), f"{SOURCE}/"

        def trace(frame: Any, event: str, _: Any) -> Any:
            if not frame.f_code.co_filename.startswith(root):
                return None
            if event == "line":
                found.add((frame.f_code.co_filename[len(root) :], frame.f_lineno))
            return trace

        threading.settrace(trace)
        sys.settrace(trace)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self.work[nodeid] = time.process_time() - self.work[nodeid]
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]


def fork(work: Callable[[], Any], folder: Path, package: Path) -> int:
    """The pid of a new process, in a session of its own, that imports from `package` and does `work`; it prints to a file."""
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        threading.Thread(target=_watch, args=(parent, folder), daemon=True).start()
        log = os.open(folder / "log.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.environ |= {"PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1"}
        sys.dont_write_bytecode = True
        sys.path[:1] = [
            str(package)
        ]  # in place of the folder of this script, whose names are those of folders of tests
        work()
    finally:
        os._exit(0)


def _watch(parent: int, folder: Path) -> None:
    """End this session once the process that began it is gone, or a mutant makes files without end."""
    least = os.statvfs(folder).f_ffree - MOST_FILES
    while os.getppid() == parent and os.statvfs(folder).f_ffree > least:
        time.sleep(0.5)
    os.killpg(0, signal.SIGKILL)


def run_tests(tests: WatchedTests, paths: list[str], folder: Path, *options: str) -> int:
    """The exit code of pytest; hypothesis draws the same examples every time and remembers none."""
    import hypothesis
    import pytest

    hypothesis.settings.register_profile("mutants", derandomize=True, database=None)
    hypothesis.settings.load_profile("mutants")
    fixed = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", f"--basetemp={folder / 'tmp'}"]
    return int(pytest.main([*fixed, *options, *paths], plugins=[tests]))


@dataclass(frozen=True)
class Recorded:
    """Of every test that passes its seconds by the clock and of work; and the tests that execute each line."""

    seconds: dict[str, float]
    work: dict[str, float]
    lines: dict[tuple[str, int], set[str]]

    @classmethod
    def of(cls, tree: str) -> Recorded:
        """What was recorded for these sources and tests, recorded now if it was not."""
        file = BUILD / f"lines-{tree}.pickle"
        if not file.exists():
            print("watching which lines every test executes ...", flush=True)
            for old in BUILD.glob("lines-*"):
                old.unlink()
            os.waitpid(fork(lambda: cls._record(file), BUILD, SOURCE), 0)
        if not file.exists():
            sys.exit(f"The tests could not be run; see {BUILD / 'log.txt'}.")
        return cls(*pickle.loads(file.read_bytes()))  # noqa: S301 - written below

    @staticmethod
    def _record(file: Path) -> None:
        tests, lines = WatchedTests(), defaultdict(set)
        paths = sorted({f"tests/{path}" for _, _, own in PLACES.values() for path in own})
        if run_tests(tests, paths, BUILD) not in (0, 1):
            return
        for name in tests.lines.keys() - set(tests.failed):
            for line in tests.lines[name]:
                lines[line].add(name)
        for name in set(tests.failed):
            del tests.work[name]
        file.with_suffix(".part").write_bytes(pickle.dumps((tests.seconds, tests.work, dict(lines))))
        file.with_suffix(".part").rename(file)

    def tests_for(self, mutant: Mutant, first: str | None) -> list[str]:
        """Tests that execute the line; where none does, those that use the file and then all of the place."""
        own = tuple(f"tests/{path}" for path in PLACES[mutant.place][2])
        every = {name for name in self.work if name.startswith(own)}
        of_line = self.lines.get((mutant.file, mutant.line), set()) & every
        of_file = set().union(*(found for (file, _), found in self.lines.items() if file == mutant.file)) & every
        order = self._in_turn(of_line) if of_line else [*self._in_turn(of_file), *self._in_turn(every - of_file)]
        kept, spent = [], 0.0
        for name in [*([first] if first in every else []), *(name for name in order if name != first)]:
            spent += self.work[name]
            if spent <= LONGEST or not kept:
                kept.append(name)
        return kept

    def _in_turn(self, names: set[str]) -> list[str]:
        """The quickest case of each test function, then the second of each, and so on."""
        functions: dict[str, list[str]] = defaultdict(list)
        for name in sorted(names, key=lambda name: (self.work[name], name)):
            functions[name.partition("[")[0]].append(name)
        return [name for turn in zip_longest(*functions.values()) for name in turn if name]


@dataclass(frozen=True)
class Trial:
    """Tests that run against a mutant in a process of their own."""

    mutant: Mutant
    folder: Path
    pid: int
    until: float

    @classmethod
    def start(cls, mutant: Mutant, names: list[str], seconds: float) -> Trial:
        folder = Path(tempfile.mkdtemp(prefix="mutant-", dir=BUILD))
        here, real = folder / "src", SOURCE
        for part in Path(
            mutant.file
        ).parts:  # all are links to the package, but the mutated file and the folders around it
            here.mkdir()
            for entry in real.iterdir():
                if entry.name not in (part, "__pycache__"):
                    (here / entry.name).symlink_to(entry)
            here, real = here / part, real / part
        here.write_text(mutant.text())

        def work() -> None:
            tests = WatchedTests(names)
            code = run_tests(tests, list(dict.fromkeys(name.partition("::")[0] for name in names)), folder, "-x")
            (folder / "verdict.json").write_text(json.dumps([code, *tests.failed[:1]]))

        patience = PATIENCE[0] + PATIENCE[1] * seconds
        return cls(mutant, folder, fork(work, folder, folder / "src"), time.monotonic() + patience)

    def verdict(self) -> tuple[str, str] | None:
        """("killed", by what) or ("survived", ""); None while it runs."""
        ended, file = os.waitpid(self.pid, os.WNOHANG)[0], self.folder / "verdict.json"
        if not ended:
            if time.monotonic() < self.until:
                return None
            os.killpg(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            return "killed", "a test that hangs"
        if not file.exists():
            return "killed", "a crash"
        code, *failed = json.loads(file.read_text())
        if code in (0, 5):  # passed, or nothing to run
            return "survived", ""
        return "killed", failed[0] if failed else "an error at import"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--processes", type=int, choices=(1, 2), default=2)
    parser.add_argument("--only", default="", help="mutants whose file or key has this text; no result is written")
    options = parser.parse_args()
    os.chdir(ROOT)
    BUILD.mkdir(parents=True, exist_ok=True)
    sys.path.insert(1, str(ROOT / "tests"))
    for name in PRELOADED:
        importlib.import_module(name)
    files = sorted([*SOURCE.rglob("*.py"), *(ROOT / "tests").rglob("*.py")])
    tree = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]
    mutants = [m for place in PLACES for m in sample(place) if options.only in f"{m.file} {m.key}"]
    verdicts = judge(mutants, tree, options.processes)
    told, judged = ("place", "file", "line", "kind", "before", "after"), ("verdict", "reason")
    details = [
        {name: getattr(m, name) for name in told} | dict(zip(judged, verdicts[m.key], strict=True)) for m in mutants
    ]
    counted = [row["verdict"] for row in details if row["verdict"] != "equivalent"]
    for row in details:
        if row["verdict"] == "survived":
            print(f"survived: {row['file']}:{row['line']} ({row['kind']})\n  - {row['before']}\n  + {row['after']}")
    if not options.only:
        killed = counted.count("killed") / len(counted)
        figures = {
            "killed": Figure(killed, "higher", 0.85, "fraction"),
            "mutants": Figure(len(details), "higher", 150, "mutants"),
        }
        write("mutants", figures, details, SEED)


def judge(mutants: list[Mutant], tree: str, processes: int) -> dict[str, tuple[str, str]]:
    """The verdict on every mutant and its reason, by key."""
    listed = tomllib.loads(EQUIVALENT.read_text())["mutant"]
    reasons = {(entry["file"], entry["before"], entry["after"]): entry["reason"] for entry in listed}
    journal = BUILD / "journal.jsonl"
    known = [json.loads(line) for line in journal.read_text().splitlines()] if journal.exists() else []
    killers = {entry["key"]: entry["reason"] for entry in known if entry["verdict"] == "killed"}
    verdicts = {entry["key"]: (entry["verdict"], entry["reason"]) for entry in known if entry["tree"] == tree}
    same = {m.key: reasons[m.file, m.before, m.after] for m in mutants if (m.file, m.before, m.after) in reasons}
    verdicts |= {key: ("equivalent", reason) for key, reason in same.items()}
    waiting, running = [mutant for mutant in mutants if mutant.key not in verdicts], []
    recorded = Recorded.of(tree) if waiting else Recorded({}, {}, {})
    while waiting or running:
        while waiting and len(running) < processes:
            mutant = waiting.pop(0)
            names = recorded.tests_for(mutant, killers.get(mutant.key))
            running.append(Trial.start(mutant, names, sum(recorded.seconds[name] for name in names)))
        for trial in list(running):
            found = trial.verdict()
            if found is None:
                continue
            running.remove(trial)
            shutil.rmtree(trial.folder, ignore_errors=True)
            m, verdicts[trial.mutant.key] = trial.mutant, found
            with journal.open("a") as file:
                file.write(json.dumps({"key": m.key, "tree": tree, "verdict": found[0], "reason": found[1]}) + "\n")
            print(f"{len(waiting) + len(running):4} left  {found[0]:9} {m.file}:{m.line}", flush=True)
        time.sleep(0.05)
    return verdicts


if __name__ == "__main__":
    main()
