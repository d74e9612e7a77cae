"""Tables in a terminal of 80 columns: nothing is cut, nothing is lost."""

from __future__ import annotations

import re

import pytest
from rich.console import Console

from compare.searches.synthetic_search import SyntheticEvaluator
from vispco.cli.compare import _tables
from vispco.cli.console import _fitting, _widths, table
from vispco.compare.searches import compare, comparison_table, get
from vispco.timing.tables import bench_tables, hours

TASKS = ("attribute", "position", "existence", "counting", "comparison", "word", "chart", "table")


class Wide(SyntheticEvaluator):
    """An evaluator with as many tasks as the drawn ones."""

    def __call__(self, subject=None):
        from dataclasses import replace

        found = super().__call__(subject)
        return replace(found, tasks=tuple(replace(found.tasks[0], task=name) for name in TASKS))


def test_columns_stand_side_by_side_as_far_as_they_fit():
    columns, rows = ("name", "a word", "bb", "c"), [("x" * 8, "1", "2", "3" * 9)]
    needs = _widths(columns, rows)
    assert needs == [8, 4, 2, 9]
    assert _fitting(needs, 80) == [[0, 1, 2, 3]]
    assert _fitting(needs, 1 + 11 + 7 + 5 + 12) == [[0, 1, 2, 3]]
    assert _fitting(needs, 1 + 11 + 7 + 5 + 11) == [[0, 1, 2], [0, 3]]
    assert _fitting(needs, 5) == [[0, 1], [0, 2], [0, 3]]


@pytest.mark.parametrize("width", [80, 200])
def test_a_comparison_is_shown_whole(width, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    found = compare(SyntheticEvaluator(), Wide(), 0.5, ["vtw", get("p-sigmoid-bo", trials=2)])
    console = Console(width=width)
    with console.capture() as capture:
        console.print(_tables(found, "a title"))
    text = capture.get()
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    columns, rows = comparison_table(found)
    for word in " ".join(columns).split():
        assert word in text
    for cell in (cell for row in rows for cell in row):
        assert re.search(rf"(?<=[ │]){re.escape(cell)}(?=[ │])", text), cell
    assert text.count("vtw") == (3 if width == 80 else 2)


def test_a_bench_is_shown_whole():
    row = {
        "configuration": "sparsevlm stages:2=0.5,6=0.25",
        "flops": 1.0,
        "ttft_ms": {"p50": 12345.6, "p95": 23456.7},
        "speedup": {"ttft": 10.0, "ttft_implied": 10.25, "language": 10.5, "language_implied": 10.75},
        "decode_tokens_per_second": 1234.5,
        "parts_ms": {"vision": 1111.1, "predictor": 2222.2, "scoring": 3333.3, "language": 4444.4},
        "kv_bytes": 2**30,
        "peak_bytes": None,
        "prefill_bytes": 2**20,
    }
    console = Console(width=80)
    with console.capture() as capture:
        for columns, rows, caption in bench_tables([row]):
            console.print(table(columns, rows, "a title", caption=caption))
    text = capture.get()
    assert "…" not in text
    for shown in ("stages:2=0.5,6=0.25", "10.00 / 10.25", "23456.7", "1234.5", "4444.4", "1.02e+03 M", "–", "prefill"):
        assert shown in text


def test_the_shipped_models_are_shown_whole(invoke, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    text = invoke("zoo", "list").out
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    assert "Qwen2_5_VLForConditionalGeneration" in text
    assert "parameters" in text


def test_little_models_have_little_numbers(invoke):
    text = invoke("info", "tiny-qwen").out
    assert "1.84 M, " in text
    assert [hours(3.0), hours(0.5), hours(0.5 / 3600)] == ["3 hours", "30 minutes", "0.5 seconds"]
