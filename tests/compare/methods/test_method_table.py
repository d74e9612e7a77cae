"""The table of published methods: what its rows say, that it is resumed, and its views."""

from __future__ import annotations

import csv
import io
import json
import re
import warnings
from dataclasses import replace

import pytest

from vispco.compare.methods import (
    ComparisonSetup,
    MethodTable,
    MethodTableRow,
    TableSettings,
    csv_text,
    fill_table,
    latex_text,
    text_rows,
)
from vispco.compare.methods.fill import chosen_methods
from vispco.compare.methods.on_top import STAYS, on_top
from vispco.compare.methods.table import continued
from vispco.core.errors import InvalidInputError, UnknownNameError
from vispco.core.runs.run_folder import RunFolder
from vispco.cost import BudgetWarning, Exact, Workload
from vispco.data import dataset
from vispco.evaluation import features
from vispco.evaluation.evaluator import TaskEvaluator
from vispco.evaluation.sample_sizes import SampleSizes
from vispco.models.loading import load
from vispco.pruner import presets
from vispco.pruner.pruner import Pruner
from vispco.scorers import Chain
from vispco.search import calibration_batches as calibrations

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
    "--budgets", "0.5", "--compensations", "none", "--rounds", "0",
)
# fmt: on


@pytest.fixture(scope="module")
def setup():
    model, processor = load("tiny-llava")
    tests, calibration = (list(dataset(split, ["attribute", "counting"], limit=1)) for split in ("test", "calibration"))
    return ComparisonSetup(model, processor, tests, calibration)


@pytest.fixture(scope="module")
def table(setup):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BudgetWarning)
        return fill_table(setup, SETTINGS)


def test_every_method_is_there_in_every_way(table):
    for method in SETTINGS.methods:
        for kind, budgets in (
            ("published", (None,)),
            ("scaled", (0.5, 0.1)),
            ("sampled", (0.5,)),
            ("compensated", (0.5,)),
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


def test_the_numbers_are_those_of_one_account(setup, table):
    row = table.row("fastv", "published")
    sample = setup.test[0]
    encoded = setup.evaluator(presets.get("fastv").chain_for(8)).store.encode([sample])
    cost = Exact(setup.evaluator(presets.get("fastv").chain_for(8)).costs["exact"].dimensions)
    counts = presets.get("fastv").schedule(cost.num_layers, encoded.num_visual).counts(encoded.num_visual)
    assert row.mean_inputs == pytest.approx(float(counts.double().mean()), rel=0.02)
    assert row.fraction == pytest.approx(
        float(cost.fraction_of_counts(counts, Workload(encoded.num_text, encoded.num_visual))[0]), rel=0.02
    )
    assert 0 <= row.low <= row.accuracy <= row.high <= 1
    assert table.row("fastv", "sampled", 0.5).deviation >= 0


def test_compensation_is_chosen_on_the_calibration_set_and_judged_on_the_test_set(setup, table):
    for method in SETTINGS.methods:
        own, row = table.row(method, "scaled", 0.5), table.row(method, "compensated", 0.5)
        chain = Chain.of(own.chain)
        calibration = setup.evaluator(chain, calibration=True)
        sizes = SampleSizes.of(calibration)
        preset, setting = presets.parse(method)
        schedule = preset.at_budget(0.5, sizes.cost, sizes.workload, setting)
        kl = {b: calibration.kl(Pruner(chain, schedule, compensate=b)) for b in (0.0, *SETTINGS.compensations)}
        beta = min(kl, key=kl.get)
        assert row.note.startswith(f"compensate={beta:g}")
        assert Chain.of(row.chain) == chain.with_compensation(beta)
        assert row.fraction == own.fraction  # it costs nothing


def test_times_are_of_the_first_word_beside_the_unpruned_model(setup):
    own, places = presets.pruner("vtw", setup.model, budget=0.5), []

    def made(place):
        places.append(place)
        return own

    times = setup.times({"half": made}, rounds=2)
    assert times["half"]["milliseconds"] > 0
    assert times["half"]["speedup"] > 0
    assert [setup.test[place].task for place in places] == ["attribute", "counting"]  # one prompt of each task
    assert setup.times({"half": made}, rounds=0) == {}


def test_every_kind_of_row_is_timed(setup):
    found = fill_table(setup, replace(SETTINGS, methods=("divprune",), budgets=(0.5,), draws=1, rounds=1))
    assert [row.kind for row in found.rows[1:]] == ["published", "scaled", "sampled", "compensated", "searched"]
    assert all(row.milliseconds > 0 and row.speedup > 0 for row in found.rows[1:])


def test_hard_items_are_those_that_a_coarse_picture_gets_wrong(setup):
    from vispco.compare.methods.comparison_setup import _coarse

    image = setup.test[0].images[0]
    assert _coarse(image).size == image.size
    assert _coarse(image).tobytes() != image.tobytes()
    assert setup.hard <= {sample.id for sample in setup.test}


def test_what_was_measured_is_not_measured_again(setup, table):
    asked = []
    again = fill_table(setup, SETTINGS, table, on_method=asked.append)
    assert again == table
    half = replace(table, rows=tuple(row for row in table.rows if row.method != "divprune" or row.kind != "searched"))
    told = []
    fill_table(setup, SETTINGS, half, on_method=told.append)
    assert [name for name in told if "search" in name] == ["divprune, search at 50%"]


def test_the_tower_and_the_teacher_run_once_for_all_methods(monkeypatch):
    model, processor = load("tiny-llava")
    tests, calibration = (list(dataset(split, ["attribute"], limit=2)) for split in ("test", "calibration"))
    setup, seen = ComparisonSetup(model, processor, tests, calibration), []
    encode, teach = features.encode_pictures, calibrations.run_teacher
    monkeypatch.setattr(features, "encode_pictures", lambda *a: seen.append("tower") or encode(*a))
    monkeypatch.setattr(calibrations, "run_teacher", lambda *a: seen.append("teacher") or teach(*a))
    settings = TableSettings(("visionzip", "hiprune", "fastv"), (0.5,), draws=0, search_budgets=(0.5,), rounds=0)
    fill_table(setup, settings)
    assert seen.count("teacher") == 1  # one batch
    assert seen.count("tower") == 3  # the test set, its coarse pictures, the calibration set


@pytest.mark.parametrize(("kl", "stays"), [((1.0, 2.0), False), ((2.0, 1.0), True)])
def test_the_own_schedule_of_a_method_takes_part_in_its_search(setup, table, monkeypatch, kl, stays):
    told = iter(kl)
    monkeypatch.setattr(TaskEvaluator, "kl", lambda *_: next(told))
    settings = replace(SETTINGS, search="vispco-halving")
    own = table.row("divprune", "scaled", 0.5)
    row = on_top(setup, settings, "divprune", "searched", 0.5, own)
    assert (STAYS in row.note) is stays
    assert row.fraction <= 0.5 + 1e-9
    assert (row.kind, row.budget) == ("searched", 0.5)
    if stays:
        assert replace(row, kind="scaled", note="") == replace(own, note="")


def test_methods_that_no_gradient_passes_are_searched_without_one(setup):
    row = on_top(setup, replace(SETTINGS, search="vispco-static", evaluated_search="random-1"), "aim", "searched", 0.5)
    assert row.note.startswith("random-1")


def test_a_method_that_cannot_run_says_why(setup, monkeypatch):
    broken = replace(presets.get("fastv"), name="broken", chain=((0, "fastv@0"),))
    monkeypatch.setitem(presets.PRESETS._items, "broken", broken)
    found = fill_table(
        setup,
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
    for place, part in enumerate(("accuracy", "low", "high")):
        assert float(read[1][f"{part} counting"]) == table.rows[1].tasks["counting"][place]
    accuracy, low, high = table.rows[1].tasks["counting"]
    assert rows[1][columns.index("counting")] == f"{100 * accuracy:.1f} [{100 * low:.0f}, {100 * high:.0f}]"
    latex = latex_text(table)
    assert latex.count(r" \\") == len(rows) + 1
    assert latex.count(r"\midrule") == 4
    assert "%" not in latex.replace(r"\%", "")


def test_latex_takes_any_name():
    odd = r"a_b&c%d#e$f{g}h~i^j\k<l>m|n"
    row = MethodTableRow(method=odd, kind="published", accuracy=0.5, low=0.4, high=0.6, tasks={odd: (0.5, 0.4, 0.6)})
    head, line = (part for part in latex_text(MethodTable((row,))).splitlines() if part.endswith(r" \\"))
    for cells in (head, line):
        plain = re.sub(
            r"\\(textbackslash|textasciitilde|textasciicircum)\{\}|\\[&%#_${}]|\$(<|>|\||\\pm|\\times)\$", "", cells
        )
        assert plain.count("&") == 1, "no other letter has a meaning of its own"
        assert not set(plain.removesuffix(r" \\")) & set("%#$_{}~^\\<>|±×")


def test_the_command_writes_all_of_them_and_goes_on(invoke, tmp_path):
    done = invoke("compare", "methods", "tiny-llava", *ARGUMENTS, "--out", tmp_path, "--json")
    assert done.code == 0, done.err
    assert {path.name for path in tmp_path.iterdir()} >= {"methods.json", "methods.csv", "methods.tex"}
    again = invoke("compare", "methods", "tiny-llava", *ARGUMENTS, "--out", tmp_path)
    assert again.code == 0, again.err
    assert "vtw @50%" in again.out
    assert json.loads((tmp_path / "methods.json").read_text())["rows"] == done.json["rows"]
    assert again.out.count("minutes: ") == 1
    record = json.loads((tmp_path / "run.json").read_text())
    assert record["finished"]
    assert set(record["files"]) == {"leaderboard.json", "methods.json", "methods.csv", "methods.tex"}
    other = invoke("compare", "methods", "tiny-llava", *ARGUMENTS[:-1], "1", "--out", tmp_path)
    assert "rounds: 0 there, 1 here" in other.err
    assert "--overwrite" in other.err
    more = invoke(
        "compare", "methods", "tiny-llava", "--methods", "uniform", *ARGUMENTS[2:], "--out", tmp_path, "--json"
    )
    assert [row["method"] for row in more.json["rows"]] == ["unpruned", "vtw", "vtw", "uniform", "uniform"]
    assert more.json["details"]["seconds"] > done.json["details"]["seconds"]
    replaced = invoke(
        "compare", "methods", "tiny-llava", *ARGUMENTS[:-1], "1", "--out", tmp_path, "--overwrite", "--json"
    )
    assert [row["method"] for row in replaced.json["rows"]] == ["unpruned", "vtw", "vtw"]
    assert replaced.json["rows"][1]["milliseconds"] > 0


def test_files_that_are_not_its_own_are_not_touched(invoke, tmp_path):
    (tmp_path / "methods.csv").write_text("mine")
    done = invoke("compare", "methods", "tiny-llava", *ARGUMENTS, "--out", tmp_path, "--overwrite")
    assert done.code == 1
    assert "methods.csv" in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["methods.csv"]


def test_a_folder_in_use_is_left_alone(invoke, tmp_path):
    with RunFolder(tmp_path).claim("compare methods", {"by": "another"}) as folder:
        folder.write_json("methods.json", {})
        done = invoke("compare", "methods", "tiny-llava", *ARGUMENTS, "--out", tmp_path)
    assert done.code == 1
    assert "in use by process" in done.err


def test_a_stopped_command_goes_on_method_by_method(invoke, tmp_path, monkeypatch):
    many, arguments = TaskEvaluator.many, ("--methods", "vtw,uniform", *ARGUMENTS[2:], "--out", tmp_path)

    def stop_at_uniform(self, candidates):
        if str(self.chain) == "uniform":
            raise KeyboardInterrupt
        return many(self, candidates)

    monkeypatch.setattr(TaskEvaluator, "many", stop_at_uniform)
    assert invoke("compare", "methods", "tiny-llava", *arguments).code == 130
    assert not json.loads((tmp_path / "run.json").read_text())["finished"]
    measured = []
    monkeypatch.setattr(TaskEvaluator, "many", lambda self, *a: measured.append(str(self.chain)) or many(self, *a))
    done = invoke("compare", "methods", "tiny-llava", *arguments, "--json")
    assert done.code == 0, done.err
    assert [row["method"] for row in done.json["rows"]] == ["unpruned", "vtw", "vtw", "uniform", "uniform"]
    assert not [chain for chain in measured if chain.startswith("vtw")]
    assert json.loads((tmp_path / "run.json").read_text())["finished"]


def test_unknown_methods_are_refused_before_anything_runs():
    with pytest.raises(UnknownNameError, match="pyramiddrop"):
        chosen_methods(["pyramidrop"])
    assert set(chosen_methods(None)) == set(presets.PRESETS)


def test_the_page_of_a_run_has_the_table(table, tmp_path):
    from report.invented import write_run
    from vispco.report.build_page import build

    run = write_run(tmp_path / "run")
    table.save(run / "methods.json")
    page = build([run])
    costs, tasks = page.published
    for found in (costs, tasks):
        assert found.columns[0] == "method"
        assert len(found.rows) == len(table.rows)
    assert tasks.columns[1:] == tuple(table.tasks)
    assert not {*costs.columns} & {*table.tasks}


def test_a_folder_with_the_table_alone_has_a_page_and_a_figure(table, tmp_path):
    from report import browser
    from vispco.report import build, plots, write

    table.save(tmp_path / "methods.json")
    page = build([tmp_path])
    assert page.runs == ()
    assert page.published[0].rows[0][0] == "unpruned"
    info = plots.methods_info(table)
    assert set(info.methods) == {row.method for row in table.rows if row.kind == "scaled"}
    for name in info.methods:
        for place, budget in enumerate(info.budgets):
            row = table.row(name, "scaled", budget)
            assert info.scaled[name][place] == (None if row is None else row.accuracy)
    first = [info.scaled[name][0] for name in info.methods]
    assert first == sorted(first, reverse=True)
    (drawn,) = plots.figures([tmp_path], tmp_path / "figures")
    assert drawn.name == "methods.png"
    written = write(page, tmp_path / "page.html")
    if browser.missing() is None:
        with browser.chromium() as driver:
            browser.show(driver, written)
            shown = "return [...document.querySelectorAll('section:not([hidden])')].map((x) => x.id)"
            assert driver.execute_script(shown) == ["sec-published", "sec-provenance"]
            assert browser.complaints(driver) == []


def test_a_file_that_is_no_table_is_refused_by_name(tmp_path):
    file = tmp_path / "methods.json"
    file.write_text('{"rows": []}')
    with pytest.raises(InvalidInputError, match=r"methods\.json cannot be read\. This is not a table of methods"):
        MethodTable.load(file)


def test_rows_are_held_against_a_chosen_one_on_the_same_items():
    def row(method, scores, **rest):
        return MethodTableRow(
            method=method, kind="scaled", budget=0.5, accuracy=sum(scores) / 20, scores={"t": tuple(scores)}, **rest
        )

    full = MethodTableRow(method="unpruned", kind="unpruned", accuracy=1.0, scores={"t": (1.0,) * 20})
    table = MethodTable((full, row("a", [1.0] * 19 + [0.0]), row("b", [0.0] * 15 + [1.0] * 5)))
    assert table.paired()["a @50%"].within_noise
    assert not table.paired()["b @50%"].within_noise
    assert table.paired("a @50%")["b @50%"].difference == pytest.approx(-0.7)
    columns, rows = text_rows(table)
    assert rows[1][columns.index("Δ")].endswith("~")
    assert not rows[2][columns.index("Δ")].endswith("~")
    with pytest.raises(UnknownNameError, match="c @50%"):
        table.paired("c @50%")
    assert MethodTable.from_dict(table.to_dict()).paired() == table.paired()


def test_latex_fits_a_column_and_the_best_of_a_budget_is_bold():
    rows = [MethodTableRow(method=name, kind="scaled", budget=0.5, accuracy=a, tasks=dict.fromkeys("abcdefgh", (a, a, a)))
            for name, a in (("one", 0.5), ("two", 0.75))]  # fmt: skip
    lines = latex_text(MethodTable(tuple(rows))).splitlines()
    assert all(line.count("&") < 8 for line in lines)
    assert [line.startswith("two") for line in lines if "textbf" in line] == [True]
