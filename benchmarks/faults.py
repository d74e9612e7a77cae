"""Is anything lost, mixed, let in or left behind when runs are killed, disks fill up and files are damaged?

    python benchmarks/faults.py [--parts build/faults] [--only kill] [--cases 100000]

Commands are forked from a process that has loaded a small model; some kills are of fresh processes with workers. A child
is killed, or refused the disk, at its file events (every open for writing, rename, removal and mkdir in its folder, of the
two longest commands a choice); then the same command runs again and must end with the numbers of a run that nobody
disturbed. Disks are real file systems of a few pages (tmpfs, which needs root) and writes that fail with ENOSPC.
Each part is kept in a file as soon as it is done: run it again to continue.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import tempfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import fault_commands as commands
import fault_disturbances as disturb
from fault_damage import Damage
from fault_readers import fuzz_readers, outside_reads
from figures import Figure, write
from vispco.core.runs.files import write_json

ROOT = Path(__file__).parent
FOLDERS = ("search", "search by a line", "sweep", "compare searches", "compare methods", "demo")  # commands with a run
PROCESSES = {"search by a line": (9,), "sweep": (3, 12), "evaluate": (1,)}  # after how many changes in the folder
LEVELS = {"search": 2, "evaluate": 2, "demo": 4}  # sizes of the disk; of the others, six
NO_SPACE = {"search": 2, "evaluate": 4, "demo": 6}  # events from which on there is no space; of the others, eight
MEMORY = Path("/dev/shm")  # noqa: S108 - a folder with a random name is made in it
KILLED_AT = 0.7  # of the file events, before files of an unfinished run are damaged


def parts(root: Path, cases: int) -> dict[str, Callable[[], dict[str, Any]]]:
    """Everything that is tried, by name."""

    @cache
    def known(name: str) -> disturb.Undisturbed:
        return disturb.Undisturbed.run(name, root)

    def again(name: str, share: float | None, kinds: tuple[str, ...]) -> dict[str, Any]:
        return Damage(name, root).run_again(known(name), share, kinds)

    found: dict[str, Callable[[], dict[str, Any]]] = {}
    for name in commands.COMMANDS:
        found[f"kill: {name}"] = lambda name=name: disturb.kill(name, root, known(name))
    for name in ("search by a line", "sweep"):
        found[f"kill in a row: {name}"] = lambda name=name: disturb.kill_in_a_row(name, root, known(name), 2, 4)
    for name, changes in PROCESSES.items():
        found[f"kill processes: {name}"] = lambda n=name, c=changes: disturb.kill_processes(n, root, known(n), c)
    for name in commands.COMMANDS:
        if os.geteuid() == 0:
            found[f"full disk: {name}"] = lambda n=name: disturb.fill_disk(n, root, known(n), LEVELS.get(n, 6))
        found[f"no space: {name}"] = lambda n=name: disturb.no_space(n, root, known(n), NO_SPACE.get(n, 8))
    for name in FOLDERS:
        found[f"damage, read: {name}"] = lambda n=name: Damage(n, root).read(12, 4)
        if name == "search":
            continue  # its files are those of the search by a line, and each case takes six seconds
        kinds = ("flipped",) if name == "demo" else ("flipped", "cut", "emptied", "replaced")
        for share in (None, KILLED_AT):
            found[f"damage, {'again' if share is None else 'killed'}: {name}"] = partial(again, name, share, kinds)
    found["foreign"], found["at once"] = partial(disturb.foreign, root), partial(disturb.two_at_once, root, 6)
    found["outside"], found["fuzzed"] = partial(outside_reads, root), partial(fuzz_readers, root, cases)
    return found


def version() -> str:
    """A digest of the package and of this benchmark: parts of other code are not quoted."""
    found = hashlib.sha256()
    for file in sorted([*(ROOT.parent / "src").rglob("*.py"), *ROOT.glob("fault*.py")]):
        found.update(file.read_bytes())
    return found.hexdigest()[:16]


def figures(done: dict[str, dict[str, Any]]) -> dict[str, Figure]:
    def total(key: str, *kinds: str) -> int:
        return sum(part.get(key, 0) for name, part in done.items() if name.startswith(kinds or ("",)))

    return {
        "kills": Figure(total("kills"), "higher", 200, "kills"),
        **{name: Figure(total(name, "kill"), "lower", 0, "runs") for name in ("lost", "repeated", "different_numbers")},
        "left_behind": Figure(total("left_behind"), "lower", 0, "files"),
        "disk_full": Figure(total("disk_full"), "higher", 40, "runs"),
        "corrupt": Figure(total("corrupt"), "lower", 0, "runs"),
        "damaged_files": Figure(total("damaged_files"), "higher", 300, "files"),
        "raw_exceptions": Figure(total("raw_exceptions") + total("raw"), "lower", 0, "cases"),
        "silently_wrong": Figure(total("silently_wrong") + total("unnamed"), "lower", 0, "files"),
        "fuzzed": Figure(total("fuzzed"), "higher", 100_000, "cases"),
        "hangs": Figure(total("hangs"), "lower", 0, "cases"),
        "outside_reads": Figure(total("outside_reads"), "lower", 0, "pictures"),
        "mixed_runs": Figure(total("mixed_runs"), "lower", 0, "runs"),
        "foreign_files_touched": Figure(total("foreign_files_touched"), "lower", 0, "files"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", type=Path, default=Path("build/faults"), help="where finished parts are kept")
    parser.add_argument(
        "--scratch", type=Path, default=MEMORY if MEMORY.is_dir() else None, help="where runs are: memory is fastest"
    )
    parser.add_argument("--only", default="", help="how the names of the parts begin that are run")
    parser.add_argument("--cases", type=int, default=100_000)
    given = parser.parse_args()
    code = version()
    commands.prepare(*commands.COMMANDS)
    done: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory(dir=given.scratch) as temporary:
        wanted = parts(Path(temporary), given.cases)
        for name, part in wanted.items():
            file = given.parts / f"{name.replace(':', '').replace(',', '').replace(' ', '-')}.json"
            kept = json.loads(file.read_text()) if file.is_file() else {}
            if kept.get("code") != code:
                if not name.startswith(given.only):
                    continue
                began = commands.seconds_used()
                kept = {"code": code, "found": part(), "seconds": round(commands.seconds_used() - began, 1)}
                write_json(file, kept)
            done[name] = {**kept["found"], "cpu_seconds": kept["seconds"]}
            print(f"{name}: {done[name]}", flush=True)
    if len(done) == len(wanted):
        write("faults", figures(done), done, seed=0)


if __name__ == "__main__":
    main()
