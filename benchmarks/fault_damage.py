"""Damaged files of finished and of killed runs: every reader, and the same command again, refuse by name or give the truth."""

from __future__ import annotations

import json
import random
import shutil
import signal
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import fault_commands as commands
from fault_disturbances import Tally, Undisturbed, folder
from vispco import report
from vispco.core.errors import VispcoError
from vispco.core.runs.run_record import check_complete
from vispco.pruner.pruner_spec import PrunerSpec
from vispco.report import run_files
from vispco.report.demo.outcome import outcome


def read_run(out: Path) -> Any:
    """Everything that is read of a run's folder, as data."""
    record = check_complete(out)
    kind = "" if record is None else record.kind
    there = run_files.read(out)
    found: dict[str, Any] = {}
    if there.comparison is not None:
        found["comparison"] = there.comparison.to_dict()
    if there.methods is not None:
        found["methods"] = there.methods.to_dict()
    if there.searched is not None or there.swept:
        found["page"] = report.build([out]).to_dict()
        found["page"].pop("created", None)
    if kind in ("search", "demo"):
        found["pruner"] = PrunerSpec.load(out).static(0.5).to_dict()
        chain = PrunerSpec.load(out).at(0.5).resolve().chain
        found["chain"] = str(chain)
    if kind == "demo":
        found["outcome"] = [row.to_dict() for row in outcome(out)]
    for file in sorted(out.glob("*frontier.json")):
        found[file.name] = report.build([file]).to_dict()["runs"]
    return json.loads(json.dumps(found, default=str))


def damages(content: bytes, other: bytes, draw: random.Random, flips: int, cuts: int) -> Iterator[tuple[str, bytes]]:
    """(what was done, the damaged file) for one file. other: the same file of another run."""
    for _ in range(flips if content else 0):
        changed = bytearray(content)
        changed[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
        yield "flipped", bytes(changed)
    for _ in range(cuts if content else 0):
        yield "cut", content[: draw.randrange(len(content))]
    yield "emptied", b""
    yield "replaced", other
    yield "garbage", draw.randbytes(max(8, len(content) // 2))


class Damage:
    """Finished and killed runs of one command whose files are damaged, one at a time, and then read or run again."""

    def __init__(self, name: str, root: Path, seed: int = 0) -> None:
        self.name, self.root, self.draw = name, root, random.Random(seed)
        kinds = ("damaged_files", "raw_exceptions", "silently_wrong", "unnamed", "refused", "equal")
        self.tally = Tally(dict.fromkeys(kinds, 0))

    def read(self, flips: int, cuts: int) -> dict[str, Any]:
        """Damage every file of a finished run, and read the run."""
        with folder(self.root) as parent, folder(self.root) as beside:
            out, other = self._finished(parent), self._other(beside)
            true = read_run(out)
            for file in files_of(out):
                content = file.read_bytes()
                twin = other / file.relative_to(out)
                replaced = twin.read_bytes() if twin.is_file() else b"{}"
                for what, changed in damages(content, replaced, self.draw, flips, cuts):
                    if changed != content:
                        file.write_bytes(changed)
                        self._read_one(out, file, what, true)
                file.write_bytes(content)
        return {**self.tally.counts, "cases": self.tally.cases}

    def _read_one(self, out: Path, file: Path, what: str, true: Any) -> None:
        case = f"{self.name}, {file.relative_to(out)} {what}, read"
        self.tally.counts["damaged_files"] += 1
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = read_run(out)
        except VispcoError as error:
            self._refused(case, str(error), file)
        except Exception as error:  # noqa: BLE001 - that is what is counted
            self.tally.add("raw_exceptions", f"{case}: {type(error).__name__}: {error}"[:300])
        else:
            self.tally.counts["equal"] += found == true
            self.tally.add("silently_wrong", case, int(found != true))

    def run_again(self, known: Undisturbed, share: float | None, kinds: Sequence[str]) -> dict[str, Any]:
        """Damage every file of a run, and run its command again.

        share: of its file events, after which the run was killed; None for one that was finished. kinds: of damage.
        """
        with folder(self.root) as parent, folder(self.root) as beside, folder(self.root) as work:
            out, other = self._finished(parent, known, share), self._other(beside)
            for file in files_of(out):
                twin = other / file.relative_to(out)
                replaced = twin.read_bytes() if twin.is_file() else b"{}"
                for what, changed in damages(file.read_bytes(), replaced, self.draw, 1, 1):
                    if changed == file.read_bytes() or what not in kinds:
                        continue
                    again = commands.place(work, self.name)
                    shutil.rmtree(again, ignore_errors=True)
                    shutil.copytree(out, again)
                    (again / file.relative_to(out)).write_bytes(changed)
                    self._run_one(again, again / file.relative_to(out), what, known, share)
        return {**self.tally.counts, "cases": self.tally.cases}

    def _run_one(self, out: Path, file: Path, what: str, known: Undisturbed, share: float | None) -> None:
        state = "of a finished run" if share is None else f"of a run killed after {share:.0%}"
        case = f"{self.name}, {file.relative_to(out)} {state} {what}, run again"
        self.tally.counts["damaged_files"] += 1
        done = commands.run(self.name, out)
        if done.raw:
            self.tally.add("raw_exceptions", f"{case}: {done.text[-300:]}")
        elif done.code:
            self._refused(case, done.refusal, file)
        else:
            same = commands.numbers(out) == known.numbers
            self.tally.counts["equal"] += same
            self.tally.add("silently_wrong", case, int(not same))

    def _refused(self, case: str, sentence: str, file: Path) -> None:
        self.tally.counts["refused"] += 1
        known = (file.name, "run.json", "holds another run")  # the last names the run that is there
        self.tally.add("unnamed", f"{case}: {sentence}", int(not any(name in sentence for name in known)))

    def _finished(self, parent: Path, known: Undisturbed | None = None, share: float | None = None) -> Path:
        out = commands.place(parent, self.name)
        at = None if known is None or share is None else max(1, int(share * len(known.events)))
        done = commands.run(self.name, out, at=at)
        assert done.code == (0 if at is None else -signal.SIGKILL), done.text
        (out / "run.lock").unlink(missing_ok=True)  # of a dead process
        return out

    def _other(self, parent: Path) -> Path:
        """A run with another seed."""
        out = commands.place(parent, self.name)
        done = commands.run(self.name, out, more=("--seed", "1"))
        assert done.code == 0, done.text
        return out


def files_of(out: Path) -> list[Path]:
    return sorted(path for path in out.rglob("*") if path.is_file())
