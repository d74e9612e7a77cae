"""Every class of transformers' image-text-to-text mapping, and 20 released variants, as tiny random twins under all laws.

python benchmarks/families.py            # all of them; writes results/families.json and the table of docs/models.md
python benchmarks/families.py qwen3_vl   # some, printed only
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import torch
import transformers

from figures import Figure, write
from vispco.check.check_model import Report
from vispco.check.twin import classes
from vispco_zoo.class_walk import VARIANTS, check_variant, walk

PAGE = Path(__file__).parent.parent / "docs" / "models.md"
BEGIN, END = "<!-- classes: begin -->", "<!-- classes: end -->"
SHOWN = {"right": "served", "no visual tokens": "nothing to prune"}


def print_line(name: str, report: Report, seconds: float) -> None:
    print(f"{name:44} {report.verdict:17} {seconds:5.1f} s  {report.why[:160]}", flush=True)


def run(kinds: list[str] | None) -> dict[str, Report]:
    found: dict[str, Report] = {}
    start = time.perf_counter()
    for kind, report in walk(kinds):
        found[kind] = report
        print_line(kind, report, time.perf_counter() - start)
        start = time.perf_counter()
    return found


def run_variants() -> dict[str, Report]:
    found: dict[str, Report] = {}
    for name in VARIANTS:
        start = time.perf_counter()
        found[name] = check_variant(name)
        print_line(name, found[name], time.perf_counter() - start)
    return found


def table(found: dict[str, Report], variants: dict[str, Report]) -> str:
    """The table of the page, as Markdown."""
    counted = Counter(report.verdict for report in found.values())
    date = f"{datetime.now(UTC):%d %B %Y}"
    versions = f"transformers {transformers.__version__} and torch {torch.__version__}"
    lines = [
        f"Walked on {date} with {versions}:",
        f"{counted['right']} of {len(found) - counted['no visual tokens']} classes with visual tokens are served,",
        f"and {sum(r.verdict == 'right' for r in variants.values())} of {len(variants)} variants.",
        "",
        "| `model_type` | class | result | why |",
        "|---|---|---|---|",
    ]
    for kind, report in found.items():
        why = report.why.split(": ", 1)[-1] if report.verdict == "refused" else report.why
        lines.append(f"| `{kind}` | {report.model_class} | {SHOWN.get(report.verdict, report.verdict)} | {why} |")
    lines += ["", "| variant | result | why |", "|---|---|---|"]
    lines += [f"| {name} | {SHOWN.get(r.verdict, r.verdict)} | {r.why} |" for name, r in variants.items()]
    return "\n".join(lines)


def main() -> None:
    if len(sys.argv) > 1:
        run(sys.argv[1:])
        return
    start = time.perf_counter()
    found, variants = run(None), run_variants()
    everything = [*found.values(), *variants.values()]
    counted = Counter(report.verdict for report in found.values())
    figures = {
        "right": Figure(counted["right"], "higher", 62, "classes"),
        "with_visual_tokens": Figure(len(classes()) - counted["no visual tokens"], "higher", None, "classes"),
        "variants_right": Figure(sum(r.verdict == "right" for r in variants.values()), "higher", 16, "variants"),
        "wrong": Figure(sum(r.verdict == "wrong" for r in everything), "lower", 0, "models"),
        "obscure_crashes": Figure(sum(r.verdict in ("crash", "no twin") for r in everything), "lower", 0, "models"),
        "refused": Figure(counted["refused"], "lower", None, "classes"),
        "minutes": Figure((time.perf_counter() - start) / 60, "lower", 15, "minutes"),
    }
    details = {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "classes": {kind: {"class": r.model_class, "verdict": r.verdict, "why": r.why} for kind, r in found.items()},
        "variants": {name: {"verdict": r.verdict, "why": r.why} for name, r in variants.items()},
    }
    write("families", figures, details, seed=0)
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n{table(found, variants)}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
