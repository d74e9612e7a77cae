"""The table of published methods: what its rows say, that it is resumed, and its views."""

from __future__ import annotations

import csv
import io
import json
import warnings
from dataclasses import replace

import pytest

from vispco import presets
from vispco.bench import BenchCandidate
from vispco.cost import BudgetWarning, Exact, Workload
from vispco.data import dataset
from vispco.errors import InvalidInputError, UnknownNameError
from vispco.loading import load
from vispco.method_table import (
    Ground,
    MethodTable,
    MethodTableRow,
    TableSettings,
    csv_text,
    fill_table,
    latex_text,
    text_rows,
)
from vispco.method_table.fill import chosen_methods
from vispco.method_table.table import continued

SETTINGS = TableSettings(
    ("fastv", "sparsevlm:64", "divprune"),
    budgets=(0.5, 0.1),
    draws=2,
    search="random-2",
    search_budgets=(0.5,),
    evaluated_search="random-1",
    rounds=0,
)
# fmt: off
ARGUMENTS = (
    "--methods", "vtw", "--tasks", "attribute", "--test", "1", "--samples", "1", "--draws", "0", "--search", "none",
    "--budgets", "0.5", "--rounds", "0",
)
# fmt: on


@pytest.fixture(scope="module")
def ground():
    model, processor = load("tiny-llava")
    tests, calibration = (list(dataset(split, ["attribute", "counting"], limit=1)) for split in ("test", "calibration"))
    return Ground(model, processor, tests, calibration)


@pytest.fixture(scope="module")
def table(ground):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BudgetWarning)
        return fill_table(ground, SETTINGS)


def test_every_method_is_there_in_every_way(table):
    for method in SETTINGS.methods:
        for kind, budgets in (
            ("published", (None,)),
            ("scaled", (0.5, 0.1)),
            ("sampled", (0.5,)),
            ("searched", (0.5,)),
        ):
            for budget in budgets:
                assert table.row(method, kind, budget).accuracy is not None, (method, kind, budget)
    assert table.rows[0].kind == "unpruned"
    assert table.rows[0].loyalty == 1.0


def test_budgets_hold_and_floors_are_named(table):
    for row in table.rows:
        if row.budget is not None and row.accuracy is not None:
            assert row.fraction <= row.budget + 1e-9 or "floor" in row.note
    assert "floor" in table.row("fastv", "scaled", 0.1).note
    assert table.row("divprune", "scaled", 0.1).note == ""


def test_the_numbers_are_those_of_one_account(ground, table):
    row = table.row("fastv", "published")
    sample = ground.test[0]
    encoded = ground.evaluator(presets.get("fastv").chain_for(8)).store.encode([sample])
    cost = Exact(ground.evaluator(presets.get("fastv").chain_for(8)).costs["exact"].dimensions)
    counts = presets.get("fastv").schedule(cost.num_layers, encoded.num_visual).counts(encoded.num_visual)
    assert row.mean_inputs == pytest.approx(float(counts.double().mean()), rel=0.02)
    assert row.fraction == pytest.approx(
        float(cost.fraction_of_counts(counts, Workload(encoded.num_text, encoded.num_visual))[0]), rel=0.02
    )
    assert 0 <= row.low <= row.accuracy <= row.high <= 1
    times = ground.times([BenchCandidate(name="half", method="vtw", budget=0.5, cost=cost.to_dict())], rounds=1)
    assert times["half"]["milliseconds"] > 0
    assert times["unpruned"]["speedup"] == 1.0
    assert table.row("fastv", "sampled", 0.5).deviation >= 0


def test_hard_items_are_those_that_a_coarse_picture_gets_wrong(ground):
    from vispco.method_table.ground import _coarse

    image = ground.test[0].images[0]
    assert _coarse(image).size == image.size
    assert _coarse(image).tobytes() != image.tobytes()
    assert ground.hard <= {sample.id for sample in ground.test}


def test_what_was_measured_is_not_measured_again(ground, table):
    asked = []
    again = fill_table(ground, SETTINGS, table, on_method=asked.append)
    assert again == table
    half = replace(table, rows=tuple(row for row in table.rows if row.method != "divprune" or row.kind != "searched"))
    told = []
    fill_table(ground, SETTINGS, half, on_method=told.append)
    assert [name for name in told if "search" in name] == ["divprune, search at 50%"]


def test_a_method_that_cannot_run_says_why(ground, monkeypatch):
    broken = replace(presets.get("fastv"), name="broken", chain=((0, "fastv@0"),))
    monkeypatch.setitem(presets.PRESETS._items, "broken", broken)
    found = fill_table(
        ground,
        replace(SETTINGS, methods=("broken",)),
        MethodTable((MethodTableRow(method="unpruned", kind="unpruned"),)),
    )
    assert "not run: " in found.row("broken", "published").note


def test_it_survives_its_file_and_another_table_is_refused(table, tmp_path):
    path = tmp_path / "methods.json"
    assert continued(path, {"model": "tiny"}) == MethodTable(details={"model": "tiny"})
    replace(table, details={"model": "tiny"}).save(path)
    assert continued(path, {"model": "tiny"}).rows == table.rows
    with pytest.raises(InvalidInputError, match="another table: model"):
        continued(path, {"model": "other"})


def test_views_have_a_line_a_row(table):
    columns, rows = text_rows(table)
    assert len(rows) == len(table.rows)
    assert {len(row) for row in rows} == {len(columns)}
    read = list(csv.DictReader(io.StringIO(csv_text(table))))
    assert [row["method"] for row in read] == [row.method for row in table.rows]
    assert float(read[1]["accuracy counting"]) == table.rows[1].tasks["counting"][0]
    latex = latex_text(table)
    assert latex.count(r" \\") == len(rows) + 1
    assert latex.count(r"\midrule") == 4
    assert "%" not in latex.replace(r"\%", "")


def test_the_command_writes_all_of_them_and_goes_on(invoke, tmp_path):
    done = invoke("compare", "methods", "tiny-llava", *ARGUMENTS, "--out", tmp_path, "--json")
    assert done.code == 0, done.err
    assert {path.name for path in tmp_path.iterdir()} >= {"methods.json", "methods.csv", "methods.tex"}
    again = invoke("compare", "methods", "tiny-llava", *ARGUMENTS, "--out", tmp_path)
    assert again.code == 0, again.err
    assert "vtw @50%" in again.out
    assert json.loads((tmp_path / "methods.json").read_text())["rows"] == done.json["rows"]
    other = invoke("compare", "methods", "tiny-llava", *ARGUMENTS[:-1], "1", "--out", tmp_path)
    assert "another table: rounds" in other.err


def test_unknown_methods_are_refused_before_anything_runs():
    with pytest.raises(UnknownNameError, match="pyramiddrop"):
        chosen_methods(["pyramidrop"])
    assert set(chosen_methods(None)) == set(presets.PRESETS)


def test_the_page_of_a_run_has_the_table(table, tmp_path):
    from report.invented import write_run
    from vispco.report.build import build

    run = write_run(tmp_path / "run")
    table.save(run / "methods.json")
    page = build([run])
    found = next(part for part in page.comparisons if "published methods" in part.label)
    assert found.columns[0] == "method"
    assert len(found.rows) == len(table.rows)
