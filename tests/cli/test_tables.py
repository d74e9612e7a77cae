"""Tables in a terminal of 80 columns: nothing is cut, nothing is lost."""

from __future__ import annotations

import re

import pytest
from rich.console import Console

from baselines.known import Known
from vispco.baselines import compare, comparison_table
from vispco.cli.compare import _tables
from vispco.cli.info import hours
from vispco.cli.output import fitting

TASKS = ("attribute", "position", "existence", "counting", "comparison", "word", "chart", "table")


class Wide(Known):
    """An evaluator with as many tasks as the drawn ones."""

    def __call__(self, subject=None):
        from dataclasses import replace

        found = super().__call__(subject)
        return replace(found, tasks=tuple(replace(found.tasks[0], task=name) for name in TASKS))


def test_columns_stand_side_by_side_as_far_as_they_fit():
    columns, rows = ("name", "a word", "bb", "c"), [("x" * 8, "1", "2", "3" * 9)]
    assert fitting(columns, rows, 80) == [[0, 1, 2, 3]]
    assert fitting(columns, rows, 1 + 11 + 7 + 5 + 12) == [[0, 1, 2, 3]]
    assert fitting(columns, rows, 1 + 11 + 7 + 5 + 11) == [[0, 1, 2], [0, 3]]
    assert fitting(columns, rows, 5) == [[0, 1], [0, 2], [0, 3]]


@pytest.mark.parametrize("width", [80, 200])
def test_a_comparison_is_shown_whole(width, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    found = compare(Known(), Wide(), 0.5, ["vtw", "random-4"])
    console = Console(width=width)
    with console.capture() as capture:
        console.print(_tables(found, "a title"))
    text = capture.get()
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    whole = comparison_table(found)
    for word in " ".join(whole.columns).split():
        assert word in text
    for cell in (cell for row in whole.rows for cell in row):
        assert re.search(rf"(?<=[ │]){re.escape(cell)}(?=[ │])", text), cell
    assert text.count("vtw") == (3 if width == 80 else 2)


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
