"""Writes the README's table of figures from benchmarks/results/*.json; `--check` fails if it is out of date."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
README, RESULTS = ROOT / "README.md", Path(__file__).parent / "results"
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"
MANY, DEPTH = 8, 3  # items of a group, and parts of a name, from which figures share a row
SIGNS = {"higher": "≥", "lower": "≤"}


def table(results: Path = RESULTS) -> str:
    """The figures of every result file, in Markdown, each group under what its script says it measures."""
    rows = ["| figure | measured | bar | |", "| --- | ---: | ---: | --- |"]
    for path in sorted(results.glob("*.json")):
        data = json.loads(path.read_text())
        if data["figures"] and (told := _about(path.stem)):
            rows.append(f"| **`{path.stem}`** {told} | | | |")
        several, folded = fold(data["figures"])
        for name, figure in data["figures"].items():
            if name in folded:
                continue
            bar, mark = "", ""
            if figure["bar"] is not None:
                limit = (
                    f"{figure['bar']:.3g}"
                    if figure["unit"] != "fraction"
                    else f"{figure['bar']:.3%}".replace(".000%", "%")
                )
                bar = f"{SIGNS[figure['better']]} {limit}"
                reached = (
                    figure["value"] >= figure["bar"]
                    if figure["better"] == "higher"
                    else figure["value"] <= figure["bar"]
                )
                mark = "" if reached else "not reached"
            rows.append(f"| {name.replace('_', ' ').replace('.', ', ')} | {_number(figure)} | {bar} | {mark} |")
        rows += several
    return "\n".join(rows)


def fold(figures: dict[str, dict[str, Any]]) -> tuple[list[str], frozenset[str]]:
    """(rows, names of the figures in them): one row for each ITEM of figures GROUP.ITEM.COLUMN without a bar, where a group has at least MANY items."""
    parts = {name: name.split(".") for name, figure in figures.items() if figure["bar"] is None}
    items: dict[str, set[str]] = {}
    for name in [*parts]:
        if len(parts[name]) != DEPTH:
            del parts[name]
            continue
        items.setdefault(parts[name][0], set()).add(parts[name][1])
    groups = [group for group, own in items.items() if len(own) >= MANY]
    taken = {name: part for name, part in parts.items() if part[0] in groups}
    columns = {group: list(dict.fromkeys(p[2] for p in taken.values() if p[0] == group)) for group in groups}
    head = "; ".join(f"{group.replace('_', ' ')} ({', '.join(own)})" for group, own in columns.items())
    rows = [f"| each: {head} | | | |"] if groups else []
    for item in dict.fromkeys(part[1] for part in taken.values()):
        cells = []
        for group, own in columns.items():
            found = [figures.get(f"{group}.{item}.{column}") for column in own]
            cells.append(", ".join("–" if one is None else _number({**one, "unit": "ratio"}) for one in found))
        rows.append(f"| {item} | {'; '.join(cells)} | | |")
    return rows, frozenset(taken)


def _about(name: str) -> str:
    """The first sentence of a benchmark's own description."""
    script = Path(__file__).parent / f"{name}.py"
    told = ast.get_docstring(ast.parse(script.read_text())) if script.exists() else None
    first = " ".join((told or "").split("\n\n")[0].split())
    return first.partition(". ")[0].partition(": ")[0].rstrip(".").replace("|", "\\|")


def _number(figure: dict[str, Any]) -> str:
    """Shares as percentages; ratios, times and counts as they are."""
    value, unit = figure["value"], figure["unit"]
    if unit == "fraction":
        return f"{value:.1%}" if value == 0 or abs(value) >= 0.0005 else f"{100 * value:.1g}%"
    return (
        f"{value:.3g}" if unit == "ratio" else f"{value:,.0f} {unit}" if abs(value) >= 1000 else f"{value:.3g} {unit}"
    )


def updated(readme: str, figures: str) -> str:
    before, rest = readme.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{figures}\n{END}{after}"


def main() -> None:
    old = README.read_text()
    new = updated(old, table())
    if "--check" in sys.argv:
        if new != old:
            sys.exit("The README's table of figures is out of date. Run: python benchmarks/readme.py")
        return
    README.write_text(new)


if __name__ == "__main__":
    main()
