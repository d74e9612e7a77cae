"""Writes the README's headline figures and docs/figures.md from results/*.json.

python benchmarks/readme.py            # --check fails if one of them is out of date
"""

from __future__ import annotations

import ast
import json
import re
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
from figure_names import NAMES, TITLES  # noqa: E402 - beside this file

ROOT = HERE.parent
README, PAGE, RESULTS = ROOT / "README.md", ROOT / "docs" / "figures.md", HERE / "results"
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"
MODELS = ("tiny-qwen", "tiny-llava", "tiny-gemma")  # of the headlines
MANY = 8  # items of a group from which they have a table of their own
UNITLESS = ("ratio", "count", "mean cost / budget", "of the budget")
SIGNS = {"higher": "≥", "lower": "≤"}
INTRODUCTION = """# Figures

*Written by `python benchmarks/readme.py` from `benchmarks/results/*.json`; each file is written by the script of its
name.* A bar is what the figure has to reach; one that misses it is marked. Times are ratios within one run on two CPU
cores, or seconds on that machine. Accuracies are those of small shipped models on synthetic tasks
([zoo.md](zoo.md)). Nothing here was measured on a GPU, with real 3B or 7B weights, or on the paper's benchmarks.
"""

Figure: TypeAlias = dict[str, Any]
Key: TypeAlias = tuple[str, ...]


def load(results: Path = RESULTS) -> dict[str, dict[str, Any]]:
    """The content of every result file, by its name."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(results.glob("*.json"))}


def key_parts(key: str) -> Key:
    """The parts of a figure's key. A dot between two digits belongs to a name: `prompts.Qwen2.5-VL` has two parts."""
    return tuple(re.split(r"(?<!\d)\.|\.(?!\d)|, ", key))


def in_words(benchmark: str, key: Key) -> str:
    """What a figure is called: by the longest beginning of its key that has a name."""
    known = {key_parts(name): words for name, words in NAMES.get(benchmark, {}).items()}
    for length in range(len(key), 0, -1):
        if key[:length] in known:
            words, rest = known[key[:length]], key[length:]
            count = min(words.count("{}"), len(rest))
            return ", ".join([words.format(*rest) if count else words, *rest[count:]]).replace("_", " ")
    return ", ".join(key).replace("_", " ")


def number(figure: Figure) -> str:
    """Shares as percentages; ratios and counts as they are, others with their unit."""
    value, unit = figure["value"], figure["unit"]
    if unit in ("fraction", "share", "accuracy"):
        return percent(value)
    text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return text if unit in UNITLESS else f"{text} {unit}"


def percent(value: float) -> str:
    return f"{value:.1%}" if value == 0 or abs(value) >= 0.0005 else f"{100 * value:.1g}%"


def bar(figure: Figure) -> str:
    """The bound that a figure must reach, or nothing."""
    if figure["bar"] is None:
        return ""
    shares = figure["unit"] in ("fraction", "share", "accuracy")
    limit = figure["bar"]
    text = f"{100 * limit:.3g}%" if shares else f"{limit:,.0f}" if abs(limit) >= 1000 else f"{limit:g}"
    return f"{SIGNS[figure['better']]} {text}"


def reached(figure: Figure) -> bool:
    value, limit = figure["value"], figure["bar"]
    return limit is None or (value >= limit if figure["better"] == "higher" else value <= limit)


def cell(figure: Figure | None) -> str:
    if figure is None:
        return ""
    return number(figure) if reached(figure) else f"**{number(figure)}**, not reached"


def page(results: dict[str, dict[str, Any]]) -> str:
    """docs/figures.md: a section for each benchmark."""
    return "\n".join([INTRODUCTION, *(section(name, data) for name, data in results.items() if data["figures"])])


def section(name: str, data: dict[str, Any]) -> str:
    """What a benchmark asks, what it was measured with, and its figures."""
    figures = {key_parts(key): figure for key, figure in data["figures"].items()}
    wide, models, plain = divide(figures)
    told = f"{about(name)} ({origin(name, data)})".strip()
    parts = [f"## {TITLES.get(name, name)}", textwrap.fill(told, 120, break_on_hyphens=False)]
    if models:
        parts.append(model_table(name, models))
    if plain:
        means = {without_model(key) for key in models}
        rows = [
            [in_words(name, key) + (", mean over models" if key in means else ""), cell(figure), bar(figure)]
            for key, figure in plain.items()
        ]
        parts.append(markdown_table(["", "measured", "bar"], rows))
    if wide:
        parts.append(item_table(name, wide))
    return "\n\n".join(parts) + "\n"


def about(name: str) -> str:
    """The first paragraph of a benchmark's description."""
    script = HERE / f"{name}.py"
    told = ast.get_docstring(ast.parse(script.read_text())) if script.exists() else None
    return " ".join((told or "").split("\n\n")[0].split())


def origin(name: str, data: dict[str, Any]) -> str:
    """The script, and what it ran with, as far as the file says."""
    versions = data.get("versions", {})
    listed = [f"{package} {versions[package]}" for package in ("torch", "transformers") if package in versions]
    cores = data.get("machine", {}).get("cores")
    return f"`benchmarks/{name}.py`" + "".join(
        f", {each}" for each in [*listed, *([f"{cores} cores"] if cores else [])]
    )


def divide(figures: dict[Key, Figure]) -> tuple[dict[Key, Figure], dict[Key, Figure], dict[Key, Figure]]:
    """Figures GROUP.ITEM.COLUMN of many items; figures that several models have; and all others."""
    items: dict[str, set[str]] = {}
    for key, figure in figures.items():
        if len(key) == 3 and figure["bar"] is None:
            items.setdefault(key[0], set()).add(key[1])
    many = [group for group, own in items.items() if len(own) >= MANY]
    wide = {key: f for key, f in figures.items() if len(key) == 3 and key[0] in many and f["bar"] is None}
    shared: dict[Key, int] = {}
    for key in figures:
        if model_of(key):
            shared[without_model(key)] = shared.get(without_model(key), 0) + 1
    models = {k: f for k, f in figures.items() if k not in wide and model_of(k) and shared[without_model(k)] > 1}
    return wide, models, {key: f for key, f in figures.items() if key not in wide and key not in models}


def model_of(key: Key) -> str | None:
    return next((part for part in key if part.startswith("tiny-")), None)


def without_model(key: Key) -> Key:
    return tuple(part for part in key if part != model_of(key))


def model_table(name: str, figures: dict[Key, Figure]) -> str:
    """One row for each figure, one column for each model."""
    named = dict.fromkeys(model_of(key) or "" for key in figures)
    columns = [*(model for model in MODELS if model in named), *(model for model in named if model not in MODELS)]
    rows = []
    for about_all in dict.fromkeys(without_model(key) for key in figures):
        found = {model_of(key): figure for key, figure in figures.items() if without_model(key) == about_all}
        bars = dict.fromkeys(filter(None, (bar(found[column]) for column in columns if column in found)))
        rows.append([in_words(name, about_all), *(cell(found.get(column)) for column in columns), ", ".join(bars)])
    return markdown_table(["", *columns, "bar"], rows)


def item_table(name: str, figures: dict[Key, Figure]) -> str:
    """One row for each item, one column for each group and column of it."""
    columns = list(dict.fromkeys((group, column) for group, _, column in figures))
    rows = []
    for item in dict.fromkeys(key[1] for key in figures):
        found = [figures.get((group, item, column)) for group, column in columns]
        rows.append([item, *("–" if each is None else f"{each['value']:.3g}" for each in found)])
    return markdown_table(["", *(in_words(name, column) for column in columns)], rows)


def markdown_table(head: list[str], rows: list[list[str]], side: str = "---:") -> str:
    rule = ["---", *[side] * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [head, rule, *rows])


def headlines(results: dict[str, dict[str, Any]]) -> str:
    """The README's figures, as far as their results are there, and how many of all bars are reached."""
    rows = [list(row) for row in headline_rows(results)]
    judged = [
        (name, key, figure)
        for name, data in results.items()
        for key, figure in data["figures"].items()
        if figure["bar"] is not None
    ]
    missed = Counter(name for name, _, figure in judged if not reached(figure))
    told = f"{len(judged) - missed.total()} of {len(judged)} figures with a bar reach it."
    listed = ", ".join(f"{number} of `{name}`" for name, number in missed.items())
    told += f" Not reached: {listed}, each named in [all figures](docs/figures.md)." if missed else ""
    return (
        f"{markdown_table(['', 'measured', 'on'], rows, '---')}\n\n{textwrap.fill(told, 120, break_on_hyphens=False)}"
    )


def headline_rows(results: dict[str, dict[str, Any]]) -> Iterator[tuple[str, str, str]]:
    """(what, the figure, what it was measured on)."""

    def values(name: str, *keys: str) -> list[float] | None:
        figures = results.get(name, {}).get("figures", {})
        return [figures[key]["value"] for key in keys] if all(key in figures for key in keys) else None

    def by_model(name: str, key: str) -> list[float] | None:
        return values(name, *(f"{key}.{model}" for model in MODELS))

    on = ", ".join(f"`{model}`" for model in MODELS)
    if found := by_model("joint", "accuracy_at_25"):
        items = 8 * results["joint"]["details"]["settings"]["test"]
        whole = by_model("zoo", "accuracy")
        told = f"; {listed(whole, '%')} unpruned on the whole test set" if whole else ""
        yield "accuracy with a quarter of the FLOPs, on average", listed(found, "%"), f"{on}: {items} test items{told}"
    if found := by_model("joint", "processor_seconds"):
        yield "processor time of a search for all budgets", listed(found, "seconds"), "the same, one thread"
    if found := by_model("joint", "cost_vs_grid"):
        what = "FLOPs of such a search, of trying every layer and 20 ratios"
        yield what, listed(found, "%"), "the same, all budgets in one search"
    if found := values("prefill", "speedup_vs_flops.single", "speedup_vs_flops.multi-step"):
        details = results["prefill"]["details"]
        faster = (
            f"{details['single']['speedup']:.2f} × faster at {details['single']['flops_fraction']:.0%} of the FLOPs"
        )
        on = f"{details['layers']} layers of Qwen2.5-VL-3B's size, random weights, {details['visual']:,} visual tokens"
        yield "speed-up of a prefill, over what its FLOPs imply", f"{found[0]:.2f} ({faster})", on
    if found := values("families", "right", "with_visual_tokens", "wrong", "refused"):
        right, every, wrong, refused = map(int, found)
        what = "classes of transformers that are pruned exactly"
        yield what, f"{right} of {every}", f"tiny random twins under every law; {wrong} wrong, {refused} refused"
    violations = [found[0] for name in ("joint", "search", "depth") if (found := values(name, "budget_violations"))]
    if violations:
        counted = values("budget", "over", "prefills")
        told = f"; {counted[0]:.0f} of {counted[1]:,.0f} prefills of every scorer, counted by torch" if counted else ""
        yield "inputs above their budget", f"{sum(violations):.0f}", f"the test items of all searches{told}"


def listed(values: list[float], unit: str) -> str:
    """`90.7, 91.9, 94.5 %`, or `1.08, 1.16, 1.07 ×`."""
    scale, form = (100, ".1f") if unit == "%" else (1, ".2f")
    return f"{', '.join(format(scale * value, form) for value in values)} {unit}"


def updated(readme: str, figures: str) -> str:
    """The README with these figures between its two marks."""
    before, rest = readme.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{figures}\n{END}{after}"


def main() -> None:
    results = load()
    written = {README: updated(README.read_text(), headlines(results)), PAGE: page(results)}
    for path, text in written.items():
        if "--check" not in sys.argv:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            sys.exit(f"{path.relative_to(ROOT)} is out of date. Run: python benchmarks/readme.py")


if __name__ == "__main__":
    main()
