"""Is anything lost, mixed, let in or left behind when runs are killed, disks fill up and files are damaged?

    python benchmarks/faults.py [--kills 210] [--cases 100000]

Commands are forked from a process that has loaded a small model. A child is killed, or told that the disk is full, at one
of its file events (every open for writing, rename, removal and mkdir in its folder); then the same command runs again and
must end with the numbers of a run that nobody disturbed.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import shutil
import tempfile
from pathlib import Path
from typing import Any

import fault_commands as commands
from fault_readers import damage_every_file, fuzz_readers, outside_reads
from figures import Figure, write
from vispco.run_record import check_files

IN_A_ROW = 6  # kills of the same run before it may end
RARE = ("demo",)  # commands that take long have every third turn


def place(root: Path, name: str) -> Path:
    """Where a command writes."""
    folder = Path(tempfile.mkdtemp(dir=root))
    return folder / ("result.json" if name == "evaluate" else "run")


def undisturbed(root: Path) -> dict[str, tuple[int, Any]]:
    """The number of file events of each command, and its results."""
    found = {}
    for name in commands.COMMANDS:
        out = place(root, name)
        done = commands.run(name, out)
        assert done.code == 0, (name, done.text)
        found[name] = (done.events, commands.numbers(out))
        print(f"{name}: {done.events} file events", flush=True)
    return found


def judge(name: str, out: Path, expected: Any, counts: dict[str, int]) -> None:
    """Finish a disturbed run and count what is wrong with it."""
    done = commands.run(name, out)
    if done.code != 0:
        print(f"lost: {name}: {done.text[-300:]}", flush=True)
        counts["lost"] += 1
        return
    counts["different_numbers"] += commands.numbers(out) != expected
    counts["repeated"] += commands.repeated(out)
    counts["left_behind"] += len(commands.left_behind(out))
    if out.is_dir():
        check_files(out)


def kill(root: Path, known: dict[str, tuple[int, Any]], wanted: int) -> dict[str, Any]:
    """Kill runs at their file events, one after the other, several times in a row."""
    counts: dict[str, Any] = dict.fromkeys(("kills", "lost", "repeated", "different_numbers", "left_behind"), 0)
    by_command = dict.fromkeys(known, 0)
    turns = {name: itertools.cycle(range(1, events + 1)) for name, (events, _) in known.items()}
    for turn, name in enumerate(itertools.cycle(known)):
        if counts["kills"] >= wanted:
            break
        if name in RARE and turn // len(known) % 3:
            continue
        out = place(root, name)
        for _ in range(IN_A_ROW):
            done = commands.run(name, out, at=next(turns[name]))
            counts["kills"] += done.code < 0
            by_command[name] += done.code < 0
            if done.code >= 0 and done.code != 0:
                print(f"refused: {name}: {done.text[-300:]}", flush=True)
                counts["lost"] += 1
        judge(name, out, known[name][1], counts)
        shutil.rmtree(out.parent, ignore_errors=True)
    return {**counts, "by_command": by_command}


def fill_disk(root: Path, known: dict[str, tuple[int, Any]], wanted: int) -> dict[str, Any]:
    """No space left at a file event, or after some bytes of a file."""
    counts: dict[str, Any] = dict.fromkeys(("disk_full", "corrupt", "raw", "lost", "repeated", "different_numbers"), 0)
    counts["left_behind"] = 0
    draw = random.Random(0)
    for turn, name in enumerate(itertools.cycle(known)):
        if counts["disk_full"] >= wanted:
            break
        if name in RARE and turn // len(known) % 3:
            continue
        out, events = place(root, name), known[name][0]
        for number in range(IN_A_ROW):
            if number % 2:
                done = commands.run(name, out, bytes_left=draw.choice((0, 10, 100, 1000, 3000)))
            else:
                done = commands.run(name, out, at=draw.randint(1, events), action="full")
            counts["disk_full"] += 1
            if done.raw:
                print(f"raw: {name}: {done.text[-300:]}", flush=True)
                counts["raw"] += 1
        judge(name, out, known[name][1], counts)
        shutil.rmtree(out.parent, ignore_errors=True)
    counts["corrupt"] = counts["lost"] + counts["different_numbers"]
    return counts


def two_at_once(root: Path, wanted: int) -> dict[str, int]:
    """Two searches with other settings in one folder at the same time: one folder, one run."""
    mixed = refused = 0
    for _ in range(wanted):
        out = place(root, "search")
        child = os.fork()
        if child == 0:
            os._exit(0 if commands.run("search", out, more=("--scorer", "random")).code == 0 else 1)
        ours = commands.run("search", out).code
        theirs = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        record = check_files(out)
        config = json.loads((out / "config.json").read_text())
        assert record is not None
        mixed += record.settings["scorer"] != config["scorer"] or (ours == 0 and theirs == 0)
        refused += (ours != 0) + (theirs != 0)
        shutil.rmtree(out.parent, ignore_errors=True)
    return {"pairs": wanted, "mixed_runs": mixed, "refused": refused}


def foreign(root: Path) -> dict[str, int]:
    """Every command into a folder, or over a file, that is somebody else's."""
    touched = cases = 0
    for name, more in itertools.product(commands.COMMANDS, ((), ("--overwrite",))):
        if more and name in ("sweep", "evaluate"):
            continue
        folder = Path(tempfile.mkdtemp(dir=root))
        for file in ("config.json", "model.safetensors", "report.html", "notes.txt"):
            (folder / file).write_text("mine")
        out = folder / "config.json" if name == "evaluate" else folder
        done = commands.run(name, out, more=more)
        kept = sorted((path.name, path.read_text()) for path in folder.iterdir())
        cases += 1
        touched += done.code == 0 or len(kept) != 4 or any(text != "mine" for _, text in kept)
    return {"cases": cases, "foreign_files_touched": touched}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=210)
    parser.add_argument("--full", type=int, default=44)
    parser.add_argument("--cases", type=int, default=100_000)
    given = parser.parse_args()
    commands.prepare()
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        known = undisturbed(root)
        details: dict[str, Any] = {"events": {name: events for name, (events, _) in known.items()}}
        details["damaged"] = damage_every_file(root)
        print(details["damaged"], flush=True)
        details["outside"] = outside_reads(root)
        details["fuzzed"] = fuzz_readers(root, given.cases)
        print(details["outside"], details["fuzzed"], flush=True)
        details["foreign"], details["at_once"] = foreign(root), two_at_once(root, 5)
        print(details["foreign"], details["at_once"], flush=True)
        details["full"] = fill_disk(root, known, given.full)
        print(details["full"], flush=True)
        details["killed"] = kill(root, known, given.kills)
        print(details["killed"], flush=True)
    killed, full, damaged, fuzzed = (details[name] for name in ("killed", "full", "damaged", "fuzzed"))
    figures = {
        "kills": Figure(killed["kills"], "higher", 200, "kills"),
        **{name: Figure(killed[name], "lower", 0, "runs") for name in ("lost", "repeated", "different_numbers")},
        "left_behind": Figure(killed["left_behind"] + full["left_behind"], "lower", 0, "files"),
        "disk_full": Figure(full["disk_full"], "higher", 40, "runs"),
        "corrupt": Figure(full["corrupt"], "lower", 0, "runs"),
        "damaged_files": Figure(damaged["damaged_files"], "higher", 300, "files"),
        "raw_exceptions": Figure(damaged["raw_exceptions"] + full["raw"], "lower", 0, "cases"),
        "silently_wrong": Figure(damaged["silently_wrong"], "lower", 0, "files"),
        "fuzzed": Figure(fuzzed["cases"], "higher", 100_000, "cases"),
        "hangs": Figure(fuzzed["hangs"], "lower", 0, "cases"),
        "outside_reads": Figure(details["outside"]["outside_reads"], "lower", 0, "pictures"),
        "mixed_runs": Figure(details["at_once"]["mixed_runs"], "lower", 0, "runs"),
        "foreign_files_touched": Figure(details["foreign"]["foreign_files_touched"], "lower", 0, "files"),
    }
    write("faults", figures, details, seed=0)


if __name__ == "__main__":
    main()
