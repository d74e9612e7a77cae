"""Invented files before every reader: a sentence or the truth, never a raw exception, never an endless loop."""

from __future__ import annotations

import json
import math
import os
import random
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import fault_commands as commands
from vispco.compare.methods import MethodTable
from vispco.compare.searches.search_comparison import Comparison
from vispco.core.errors import VispcoError
from vispco.core.runs import files
from vispco.core.runs.checkpoint_file import load_checkpoint, save_checkpoint
from vispco.core.runs.option_files import read_options
from vispco.core.runs.run_record import check_complete
from vispco.core.schedule import Schedule
from vispco.cost import Budget
from vispco.cost.time_profile import TimeProfile
from vispco.data import dataset
from vispco.data.files import Jsonl, LlavaInstruct, Tsv
from vispco.evaluation.frontier import Frontier
from vispco.pruner.model_fingerprint import ModelFingerprint
from vispco.pruner.planner_kinds import read_schedule
from vispco.pruner.pruner_spec import PrunerSpec
from vispco.pruner.search_files import FoundShape
from vispco.report.payload import Example
from vispco.scorers import Chain

SECONDS = 10  # after which a reader hangs


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


def _finite(value: Any) -> Any:
    """Data that a JSON file can hold."""
    if isinstance(value, dict | list):
        return (
            {key: _finite(inner) for key, inner in value.items()}
            if isinstance(value, dict)
            else [_finite(inner) for inner in value]
        )
    return None if isinstance(value, float) and not math.isfinite(value) else value


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
    pruner = PrunerSpec.load(out).static(0.5).to_dict()
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
        files.write_json(place / "record" / "run.json", _finite(data), seal=sealed)
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
        "pruner": (PrunerSpec.from_dict, pruner),
        "pruner file": (through_file(PrunerSpec.load), pruner),
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
        "budget": (lambda given: Budget.of(given).fraction, 0.5),
        "chain": (Chain.of, pruner["chain"]),
        "schedule text": (lambda data: read_schedule(str(data)[:100], 10), "single:2:0.5"),
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
