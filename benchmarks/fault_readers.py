"""Damaged and invented files before every reader: a sentence or the truth, never a raw exception, never an endless loop."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fault_commands as commands
from vispco import report
from vispco.cli.choice import schedule_from
from vispco.cli.config import read_options
from vispco.cost import parse_budget
from vispco.data import dataset
from vispco.errors import VispcoError
from vispco.frontier import Frontier
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
PLACES = 12  # flips and cuts of each file


def read_run(folder: Path) -> Any:
    """Everything that is read of a run's folder, as data."""
    record = check_complete(folder)
    if record is not None and record.kind == "compare":
        return Comparison.load(folder / "comparison.json").to_dict()
    payload = report.build([folder]).to_dict()
    payload.pop("created", None)
    found: dict[str, Any] = {"page": payload}
    if record is not None and record.kind in ("search", "demo"):
        found["pruner"] = deployment.export(folder, 0.5).to_dict()
        deployment.load(folder, 0.5)
    return found


def damage_every_file(root: Path) -> dict[str, Any]:
    """Flip one bit or cut the end of every file of finished runs, then read the runs."""
    counts = {"damaged_files": 0, "raw_exceptions": 0, "silently_wrong": 0, "refused": 0, "harmless": 0}
    raw: list[str] = []
    draw = random.Random(0)
    for name in ("search", "demo", "sweep", "compare"):
        out = Path(tempfile.mkdtemp(dir=root)) / "run"
        assert commands.run(name, out).code == 0
        true = json.dumps(read_run(out), sort_keys=True, default=str)
        for file in sorted(path for path in out.rglob("*") if path.is_file()):
            content = file.read_bytes()
            for place in range(PLACES):
                if not content:
                    continue
                changed = bytearray(content)
                if place % 2:
                    changed[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
                else:
                    del changed[draw.randrange(len(content)) :]
                file.write_bytes(changed)
                counts["damaged_files"] += 1
                try:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        same = json.dumps(read_run(out), sort_keys=True, default=str) == true
                    known = file.name.startswith(("journal.log", "run.json"))  # they carry their own checks
                    counts["harmless" if same or known else "silently_wrong"] += 1
                    if not same and not known:
                        raw.append(f"silent: {name}/{file.name}")
                except VispcoError:
                    counts["refused"] += 1
                except Exception as error:  # noqa: BLE001 - that is what is counted
                    counts["raw_exceptions"] += 1
                    raw.append(f"{name}/{file.name}: {type(error).__name__}: {error}"[:200])
            file.write_bytes(content)
        shutil.rmtree(out.parent, ignore_errors=True)
    return {**counts, "examples": raw[:10]}


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
    return {"cases": 2 * len(names), "outside_reads": read}


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
    assert commands.run("search", out).code == 0
    (place / "compare").mkdir()
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

    readers: dict[str, tuple[Callable[[Any], Any], Any]] = {
        "schedule": (Schedule.from_dict, schedule),
        "schedule file": (through_file(Schedule.load), schedule),
        "frontier file": (through_file(Frontier.load), true["frontier"]),
        "shape": (FoundShape.from_dict, true["shapes"][0]),
        "pruner": (PrunerConfig.from_dict, pruner),
        "pruner file": (through_file(PrunerConfig.load), pruner),
        "fingerprint": (ModelFingerprint.from_dict, true["config"]["fingerprint"]),
        "example": (Example.from_dict, true["examples"][0] if true["examples"] else {}),
        "comparison file": (through_file(Comparison.load), {}),
        "options file": (through_file(lambda path: read_options(path, "search")), {"scorer": "fastv"}),
        "budget": (parse_budget, 0.5),
        "chain": (Chain.of, pruner["chain"]),
        "schedule text": (lambda data: schedule_from(str(data)[:100], 10), "single:2:0.5"),
        "jsonl": (rows(Jsonl, ".jsonl"), {"image": "a.png", "question": "a", "answer": "b"}),
        "llava": (rows(LlavaInstruct, ".json"), {"image": "a.png", "conversations": []}),
        "tsv": (rows(Tsv, ".tsv"), "abc"),
    }
    counts: dict[str, Any] = {"cases": 0, "hangs": 0, "raw": 0}
    raw: dict[str, str] = {}

    def late(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, late)
    names = list(readers)
    for number in range(cases):
        name = names[number % len(names)]
        reader, good = readers[name]
        data = _mutated(draw, good)
        counts["cases"] += 1
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
