"""Writes the README's table of figures from benchmarks/results/*.json; `--check` fails if it is out of date."""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
README, RESULTS = ROOT / "README.md", Path(__file__).parent / "results"
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"
SIGNS = {"higher": "≥", "lower": "≤"}


def table(results: Path = RESULTS) -> str:
    """The figures of every result file, in Markdown."""
    rows = ["| figure | measured | bar | |", "| --- | ---: | ---: | --- |"]
    for path in sorted(results.glob("*.json")):
        data = json.loads(path.read_text())
        for name, figure in data["figures"].items():
            bar, mark = "", ""
            if figure["bar"] is not None:
                bar = f"{SIGNS[figure['better']]} {figure['bar']:g}"
                reached = (
                    figure["value"] >= figure["bar"]
                    if figure["better"] == "higher"
                    else figure["value"] <= figure["bar"]
                )
                mark = "" if reached else "not reached"
            rows.append(f"| `{path.stem}`: {name} | {figure['value']:.3g} {figure['unit']} | {bar} | {mark} |")
    return "\n".join(rows)


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
