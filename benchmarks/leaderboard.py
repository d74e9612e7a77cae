"""Checks the leaderboard entries in results/, runs them again, and writes docs/leaderboard.md.

    python benchmarks/leaderboard.py                           # writes the page; --check fails where it is out of date
    python benchmarks/leaderboard.py --rerun results/NAME.json # the same command again: its rows must be found again

An entry is the leaderboard.json that `vispco search` and `vispco compare methods` write into their folder. Entries on
shipped models are run again. A row of a method must come within ACCURACY of the same accuracy; one that was searched must
stay within its interval, since a search may end elsewhere on another processor.
"""

from __future__ import annotations

import argparse
import html
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from vispco.core.errors import InvalidInputError
from vispco.evaluation.leaderboard import NAME, LeaderboardEntry, LeaderboardRow
from vispco.models import shipped

ROOT = Path(__file__).resolve().parent.parent
RESULTS, PAGE = ROOT / "results", ROOT / "docs" / "leaderboard.md"
ACCURACY, FRACTION = 0.015, 0.002  # how far a row may be from the entry's when it is run again
FILES_OF_ONES_OWN = ("data", "images", "data_root")
COLUMNS = ("model", "method", "kind", "budget", "FLOPs", "accuracy", "95 % interval", "Δ", "items", "can be rerun")
INTRODUCTION = """---
hide: [navigation, toc]
---

# Leaderboard

*Written by `python benchmarks/leaderboard.py` from `results/*.json`.* Every row counts the FLOPs of the language
model's prefill, scoring included, by one formula (`exact`), as a share of the unpruned model's, and accuracy as the
mean over tasks with its 95 % interval. Δ is the difference to the unpruned model on the same items, in points. A
method stands as its paper sets it (published), scaled to the budget (scaled), with attention given back (compensated),
or with schedules that were searched; a ! says that it cannot meet the budget. Rows of shipped models, on synthetic
tasks ([zoo.md](zoo.md)), can be run again by anyone. Click a heading to sort. [Add yours](#add-yours).

"""
ADD = """
## Add yours

`vispco search` and `vispco compare methods` write `leaderboard.json` into their folder. Copy it to `results/` under a
name of its own, run `python benchmarks/leaderboard.py`, and open a pull request with both files. The workflow checks
its form and, on shipped models, runs the same command again. Other models and questions of your own are welcome; their
rows say `reported`.

```sh
vispco compare methods tiny-qwen --methods fastv,divprune --search none --draws 0 --rounds 0 --out runs/mine
cp runs/mine/leaderboard.json results/tiny-qwen-two-methods.json
python benchmarks/leaderboard.py --rerun results/tiny-qwen-two-methods.json && python benchmarks/leaderboard.py
```
"""


def can_rerun(entry: LeaderboardEntry) -> bool:
    """Whether anybody can: a shipped model, and no files of one's own."""
    own = any(entry.options.get(name) for name in FILES_OF_ONES_OWN) or "=" in str(entry.options.get("tasks", ""))
    return entry.model in shipped.names() and not own


def differences(entry: LeaderboardEntry, again: LeaderboardEntry) -> list[str]:
    """The rows that were not found again, in sentences."""
    found = {row.key: row for row in again.rows}
    told = [f"{key} is in one of them only" for key in {row.key for row in entry.rows} ^ {*found}]
    for row in entry.rows:
        other = found.get(row.key)
        if other is None:
            continue
        near = abs(row.accuracy - other.accuracy) <= ACCURACY
        if row.kind == "searched":
            near = row.low <= other.accuracy <= row.high
        if not near or (row.kind != "searched" and abs(row.fraction - other.fraction) > FRACTION):
            told.append(
                f"{row.key}: accuracy {row.accuracy:.3f} at {row.fraction:.3f} of the FLOPs, again {other.accuracy:.3f} at "
                f"{other.fraction:.3f}"
            )
    return told


def rerun(path: Path) -> list[str]:
    """Run an entry's command again; what differs."""
    entry = LeaderboardEntry.load(path)
    if not can_rerun(entry):
        print(f"{path.name}: reported; {entry.model} or its questions are not shipped, so it is not run again")
        return []
    with tempfile.TemporaryDirectory() as folder:
        options = Path(folder) / "options.json"
        options.write_text(json.dumps(dict(entry.options)), encoding="utf-8")
        out = Path(folder) / "run"
        command = [sys.executable, "-m", "vispco", *entry.command.split(), entry.model, "--config", str(options)]
        done = subprocess.run([*command, "--out", str(out), "--json"], capture_output=True, text=True, check=False)
        if done.returncode:
            return [done.stderr.strip().splitlines()[-1]]
        return differences(entry, LeaderboardEntry.load(out / NAME))


def entries() -> dict[str, LeaderboardEntry]:
    """All of results/, by file name."""
    return {path.name: LeaderboardEntry.load(path) for path in sorted(RESULTS.glob("*.json"))}


def cells(entry: LeaderboardEntry, row: LeaderboardRow) -> list[tuple[str, float | str]]:
    """What a row shows, and what it is sorted by."""
    over = "" if row.budget is None or row.fraction <= row.budget + 1e-6 else " !"
    delta = 100 * (row.accuracy - entry.unpruned.accuracy)
    items = sum(entry.tasks.values())
    return [
        (entry.model, entry.model),
        (row.method, row.method),
        (row.kind, row.kind),
        ("" if row.budget is None else f"{row.budget:.0%}", 2.0 if row.budget is None else row.budget),
        (f"{row.fraction:.1%}{over}", row.fraction),
        (f"{row.accuracy:.1%}", row.accuracy),
        (f"{100 * row.low:.1f} – {100 * row.high:.1f}", row.low),
        (f"{delta:+.1f}", delta),
        (f"{items} of {len(entry.tasks)} tasks", float(items)),
        ("yes", 1.0) if can_rerun(entry) else ("no, reported", 0.0),
    ]


def page(found: dict[str, LeaderboardEntry]) -> str:
    """The page, sorted by model, budget and accuracy."""
    once: dict[object, tuple[LeaderboardEntry, LeaderboardRow]] = {}
    for entry in found.values():  # the unpruned model stands in every entry
        for row in entry.rows:
            once.setdefault((entry.model, row, *entry.tasks.items()), (entry, row))
    rows = list(once.values())
    rows.sort(key=lambda pair: (pair[0].model, pair[1].budget or 2.0, -pair[1].accuracy, pair[1].method))
    heads = "".join(f"<th>{html.escape(name)}</th>" for name in COLUMNS)
    lines = []
    for entry, row in rows:
        shown = "".join(
            f'<td data-sort="{html.escape(str(by))}">{html.escape(text)}</td>' for text, by in cells(entry, row)
        )
        lines.append(f"<tr>{shown}</tr>")
    table = (
        f'<table class="leaderboard">\n<thead><tr>{heads}</tr></thead>\n<tbody>\n'
        + "\n".join(lines)
        + "\n</tbody></table>\n"
    )
    return INTRODUCTION + table + ADD


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="fail where the page is out of date")
    parser.add_argument("--rerun", nargs="*", type=Path, metavar="FILE", help="run these entries again")
    asked = parser.parse_args()
    if asked.rerun is not None:
        told = {path.name: rerun(path) for path in asked.rerun if path.suffix == ".json"}
        for name, wrong in told.items():
            print(f"{name}: " + ("; ".join(wrong) or "the same"))
        sys.exit(any(told.values()))
    try:
        text = page(entries())
    except InvalidInputError as error:
        sys.exit(str(error))
    if asked.check and PAGE.read_text(encoding="utf-8") != text:
        sys.exit("docs/leaderboard.md is out of date: python benchmarks/leaderboard.py")
    if not asked.check:
        PAGE.write_text(text, encoding="utf-8")
        print(f"{PAGE.relative_to(ROOT)}: {text.count('<tr>') - 1} rows")


if __name__ == "__main__":
    main()
