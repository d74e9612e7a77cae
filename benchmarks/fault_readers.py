"""Damaged and invented files before every reader: a sentence or the truth, never a raw exception, never an endless loop."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

import fault_commands as commands
from fault_disturbances import Tally, Undisturbed, folder
from vispco import files, report
from vispco.checkpoint_file import load_checkpoint, save_checkpoint
from vispco.cli.choice import schedule_from
from vispco.cli.config import read_options
from vispco.cost import parse_budget
from vispco.cost.time_profile import TimeProfile
from vispco.data import dataset
from vispco.demo.outcome import outcome
from vispco.errors import VispcoError
from vispco.frontier import Frontier
from vispco.method_table import MethodTable
from vispco.planning import deployment
from vispco.planning.found_shape import FoundShape
from vispco.planning.model_fingerprint import ModelFingerprint
from vispco.planning.pruner_config import PrunerConfig
from vispco.report.payload import Example
from vispco.rivals.comparison import Comparison
from vispco.run_record import check_complete
from vispco.schedule import Schedule
from vispco.scorers import Chain
from vispco.sources import Jsonl, LlavaInstruct, Tsv

SECONDS = 10  # after which a reader hangs


def read_run(out: Path) -> Any:
    """Everything that is read of a run's folder, as data."""
    record = check_complete(out)
    assert record is not None
    page = report.build([out]).to_dict()
    page.pop("created", None)
    found: dict[str, Any] = {"page": page}
    if record.kind == "compare":
        found["comparison"] = Comparison.load(out / "comparison.json").to_dict()
    if record.kind in ("search", "demo"):
        found["pruner"] = deployment.export(out, 0.5).to_dict()
        chain, _ = deployment.load(out, 0.5)
        found["chain"] = str(chain)
    if record.kind == "demo":
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

    def run_again(self, known: Undisturbed, share: float | None) -> dict[str, Any]:
        """Damage every file of a run, and run its command again. share: of its file events, after which it was killed."""
        with folder(self.root) as parent, folder(self.root) as beside, folder(self.root) as work:
            out, other = self._finished(parent, known, share), self._other(beside)
            for file in files_of(out):
                twin = other / file.relative_to(out)
                replaced = twin.read_bytes() if twin.is_file() else b"{}"
                for what, changed in damages(file.read_bytes(), replaced, self.draw, 2, 1):
                    if changed == file.read_bytes() or what == "garbage":
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
        self.tally.add("unnamed", f"{case}: {sentence}", int(file.name not in sentence and "run.json" not in sentence))

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


def outside_reads(root: Path) -> dict[str, int]:
    """Pictures that a data file names outside of its folder."""
    inside = Path(tempfile.mkdtemp(dir=root)) / "data"
    inside.mkdir()
    picture = dataset("test", limit=1)[0].image
    picture.save(inside / "good.png")
    picture.save(inside.parent / "outside.png")
    (inside / "link.png").symlink_to(inside.parent / "outside.png")
    (inside / "folder").symlink_to(inside.parent)
    os.mkfifo(inside / "pipe.png")
    names = ["../outside.png", str(inside.parent / "outside.png"), "link.png", "folder/outside.png", "pipe.png"]
    names += [
        "./../outside.png",
        "data/../../outside.png",
        "/etc/passwd",
        "../../../../etc/passwd",
        "/proc/self/environ",
    ]
    read = 0
    for name in names:
        row = {"image": name, "question": "what?", "answer": "x"}
        (inside / "rows.jsonl").write_text(f'{{"image":"good.png","question":"a","answer":"b"}}\n{json.dumps(row)}\n')
        read += len(list(Jsonl(inside / "rows.jsonl"))) - 1
        table = f"index\timage_path\tquestion\tanswer\n1\tgood.png\ta\tb\n2\t{name}\ta\tb\n"
        (inside / "rows.tsv").write_text(table)
        read += len(list(Tsv(inside / "rows.tsv"))) - 1
    return {"tried": 2 * len(names), "outside_reads": read}


def _value(draw: random.Random, depth: int = 0) -> Any:
    kind = draw.randrange(12 if depth < 4 else 8)
    simple: list[Any] = [
        None,
        True,
        draw.randint(-3, 40),
        10 ** draw.choice((20, 400)),
        draw.random(),
        draw.choice(("", "fastv", "0.5", "retention", "\0", "é" * 9, "../x", "1e999", "NaN")),
        float("inf") if draw.random() < 0.5 else float("nan"),
        "x" * draw.randrange(200),
    ]
    if kind < 8:
        return simple[kind]
    if kind < 10:
        return [_value(draw, depth + 1) for _ in range(draw.randrange(5))]
    return {draw.choice(KEYS): _value(draw, depth + 1) for _ in range(draw.randrange(6))}


KEYS = (
    *(
        "format",
        "version",
        "retention",
        "name",
        "schedule",
        "chain",
        "planner",
        "kind",
        "budget",
        "cost",
        "points",
        "axis",
    ),
    *(
        "evaluation",
        "provenance",
        "scorer",
        "kernel",
        "params",
        "kl",
        "model_class",
        "dimensions",
        "weights",
        "rows",
        "states",
    ),
)


def _mutated(draw: random.Random, true: Any) -> Any:
    """A true file with one part exchanged."""
    if draw.random() < 0.3 or not isinstance(true, dict | list) or not true:
        return _value(draw)
    changed = json.loads(json.dumps(true))
    at = changed
    while isinstance(at, dict | list) and at:
        key = draw.choice(list(at)) if isinstance(at, dict) else draw.randrange(len(at))
        if not isinstance(at[key], dict | list) or draw.random() < 0.4:
            at[key] = _value(draw)
            break
        at = at[key]
    return changed


def fuzz_readers(root: Path, cases: int) -> dict[str, Any]:
    """Invented data before every reader."""
    place = Path(tempfile.mkdtemp(dir=root))
    out = place / "run"
    assert commands.run("search by a line", out, more=("--examples", "1")).code == 0
    (place / "record").mkdir()
    save_checkpoint(place / "checkpoint", {"weight": torch.ones(3)}, {"step": 1})
    weights = (place / "checkpoint").read_bytes()
    true = {
        name: json.loads((out / f"{name}.json").read_text()) for name in ("frontier", "shapes", "config", "examples")
    }
    pruner = deployment.export(out, 0.5).to_dict()
    schedule = pruner["planner"]["schedule"]
    draw = random.Random(1)
    text = place / "x.json"

    def through_file(reader: Callable[[Path], Any]) -> Callable[[Any], Any]:
        def read(data: Any) -> Any:
            body = json.dumps(data).encode()
            if draw.random() < 0.3:
                body = (
                    bytes(draw.randrange(256) for _ in range(draw.randrange(60)))
                    if draw.random() < 0.5
                    else body[: len(body) // 2]
                )
            text.write_bytes(body)
            return reader(text)

        return read

    def rows(reader: Any, ending: str) -> Callable[[Any], Any]:
        def read(data: Any) -> Any:
            file = place / f"rows{ending}"
            body = json.dumps([data] if ending == ".json" else data)
            file.write_text(body if ending != ".tsv" else f"index\timage\tquestion\tanswer\n1\t{body}\ta\tb\n")
            return list(reader(file))

        return read

    def record(data: Any) -> Any:
        sealed = draw.random() < 0.5 and isinstance(data, dict)
        files.write_json(place / "record" / "run.json", json.loads(json.dumps(data).replace("NaN", "0")), seal=sealed)
        return check_complete(place / "record")

    def checkpoint(_: Any) -> Any:
        changed = bytearray(weights)
        for _ in range(draw.randrange(1, 4)):
            changed[draw.randrange(len(changed))] = draw.randrange(256)
        (place / "checkpoint").write_bytes(
            bytes(changed)[: draw.randrange(len(changed)) if draw.random() < 0.3 else None]
        )
        return load_checkpoint(place / "checkpoint")

    readers: dict[str, tuple[Callable[[Any], Any], Any]] = {
        "schedule": (Schedule.from_dict, schedule),
        "schedule file": (through_file(Schedule.load), schedule),
        "frontier file": (through_file(Frontier.load), true["frontier"]),
        "shape": (FoundShape.from_dict, true["shapes"][0]),
        "pruner": (PrunerConfig.from_dict, pruner),
        "pruner file": (through_file(PrunerConfig.load), pruner),
        "fingerprint": (ModelFingerprint.from_dict, true["config"]["fingerprint"]),
        "example": (Example.from_dict, true["examples"][0] if true["examples"] else {}),
        "comparison file": (
            through_file(Comparison.load),
            {"format": "vispco-comparison", "rows": [{}], "budget": 0.5},
        ),
        "table of methods": (through_file(MethodTable.load), {"format": "vispco-methods", "rows": [{}]}),
        "profile": (through_file(TimeProfile.read), {"format": "vispco-profile"}),
        "record of a run": (record, json.loads((out / "run.json").read_text())),
        "checkpoint": (checkpoint, {}),
        "options file": (through_file(lambda path: read_options(path, "search")), {"scorer": "fastv"}),
        "budget": (parse_budget, 0.5),
        "chain": (Chain.of, pruner["chain"]),
        "schedule text": (lambda data: schedule_from(str(data)[:100], 10), "single:2:0.5"),
        "jsonl": (rows(Jsonl, ".jsonl"), {"image": "a.png", "question": "a", "answer": "b"}),
        "llava": (rows(LlavaInstruct, ".json"), {"image": "a.png", "conversations": []}),
        "tsv": (rows(Tsv, ".tsv"), "abc"),
    }
    counts: dict[str, Any] = {"fuzzed": 0, "hangs": 0, "raw": 0}
    raw: dict[str, str] = {}

    def late(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, late)
    names = list(readers)
    for number in range(cases):
        name = names[number % len(names)]
        reader, good = readers[name]
        data = _mutated(draw, good)
        counts["fuzzed"] += 1
        signal.alarm(SECONDS)
        try:
            reader(data)
        except VispcoError:
            pass
        except TimeoutError:
            counts["hangs"] += 1
        except Exception as error:  # noqa: BLE001 - that is what is counted
            counts["raw"] += 1
            raw.setdefault(f"{name}: {type(error).__name__}", f"{error}"[:120])
        finally:
            signal.alarm(0)
    return {**counts, "examples": dict(list(raw.items())[:30])}
