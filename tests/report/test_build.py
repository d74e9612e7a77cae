"""What the page shows is what the run's files say; what they do not say is not there."""

import json
import math
import shutil

import pytest

from report.invented import BUDGETS, searched, swept, write_run
from vispco.compare.searches.search_comparison import Comparison, Row
from vispco.core.errors import InvalidInputError
from vispco.core.schedule import Schedule
from vispco.evaluation import Evaluation, TaskResult
from vispco.evaluation.frontier import Frontier, Point
from vispco.report import build
from vispco.search.bill import FlopsBill


@pytest.fixture(scope="module")
def payload(run, other):
    return build([run, other])


def test_every_frontier_becomes_a_run_of_its_own(payload):
    assert [(r.label, r.kind) for r in payload.runs] == [
        ("fastv-multi-step", "searched"),
        ("grid", "empirical"),
        ("fastv-linear", "searched"),
    ]
    assert {r.model for r in payload.runs} == {"invented-vl"}
    assert payload.runs[2].kernel == "linear"


def test_points_are_those_of_the_file(payload, run):
    frontier = Frontier.load(run / "grid.frontier.json")
    shown = payload.runs[1]
    assert [p.accuracy for p in shown.points] == [p.accuracy for p in frontier]
    assert [p.fraction for p in shown.points] == [p.evaluation.fraction["exact"] for p in frontier]
    optimal = {id(p) for p in frontier.front}
    assert list(shown.frontier) == [i for i, p in enumerate(frontier) if id(p) in optimal]


def test_schedules_on_the_frontier_are_exact(payload, run):
    frontier = Frontier.load(run / "frontier.json")
    for place in payload.runs[0].frontier:
        assert payload.runs[0].points[place].retention == frontier.points[place].schedule.retention


def test_time_is_that_of_one_sample(payload, run):
    point = Frontier.load(run / "frontier.json").points[0]
    items = sum(task.n for task in point.evaluation.tasks)
    assert payload.runs[0].points[0].seconds == point.evaluation.seconds / items


def test_the_slider_stops_at_what_pick_gives(payload, run):
    frontier = Frontier.load(run / "frontier.json")
    assert [row.budget for row in payload.budgets] == list(BUDGETS)
    for row in payload.budgets:
        place = row.choices[0]
        if place is None:
            assert row.budget < min(frontier.cost(p) for p in frontier)
        else:
            assert frontier.points[place] == frontier.pick(row.budget)


def test_methods_are_measured_against_the_empirical_frontier(payload, run):
    empirical = Frontier.load(run / "grid.frontier.json")
    searched = Frontier.load(run / "frontier.json")
    row = payload.methods[0]
    assert row.hypervolume == pytest.approx(searched.hypervolume())
    assert row.ratio == pytest.approx(searched.hypervolume_ratio(empirical))
    assert payload.methods[1].ratio == pytest.approx(1.0)
    assert row.accuracy[1] == searched.pick(0.5).accuracy
    assert row.seconds == 92.0


def test_examples_and_solver_steps_know_their_run(payload, run, other):
    assert {e.run for e in payload.examples} == {"fastv-multi-step"}
    owners = [(c.run, c.budget) for c in payload.convergence]
    assert owners == [("fastv-multi-step", None), *(("fastv-linear", b) for b in (0.2, 0.4, 0.6, 0.7, 0.9))]


def test_a_run_with_another_s_name_keeps_its_own_examples(run, tmp_path):
    twin = tmp_path / "twins" / run.name
    shutil.copytree(run, twin)
    built = build([run, twin])
    labels = [r.label for r in built.runs if r.kind == "searched"]
    assert len(set(labels)) == 2
    half = len(built.examples) // 2
    assert [e.run for e in built.examples] == [labels[0]] * half + [labels[1]] * half


def test_search_cost_is_told_in_flops_too(payload):
    curves = {c.label: c for c in payload.hypervolume}
    grid = swept()
    items = sum(task.n for task in grid.points[0].evaluation.tasks)
    spent = sum(p.evaluation.flops["exact"] for p in grid) * items
    assert curves["grid"].flops[-1] == pytest.approx(spent)
    assert len(curves["grid"].flops) == len(curves["grid"].value)
    assert curves["fastv-linear"].flops == (3e12,)
    assert curves["fastv-multi-step"].flops == ()
    assert [m.flops for m in payload.methods] == [None, pytest.approx(spent), 3e12]


def test_hypervolume_grows_with_the_time_a_sweep_spends(payload):
    curve = next(c for c in payload.hypervolume if c.label == "grid")
    frontier = swept()
    assert curve.cost[-1] == pytest.approx(sum(p.evaluation.seconds for p in frontier))
    assert curve.value[-1] == pytest.approx(frontier.hypervolume())
    assert list(curve.value) == sorted(curve.value)


def test_a_run_without_optional_files_has_no_optional_parts(run, tmp_path):
    Frontier.load(run / "frontier.json").save(tmp_path / "frontier.json")
    payload = build([tmp_path])
    assert payload.examples == payload.convergence == payload.areas == payload.bench == payload.hypervolume == ()
    assert payload.methods[0].ratio is None
    assert payload.runs[0].folder == ""


def test_the_folder_of_a_search_can_be_deployed(other):
    payload = build([other])
    assert payload.runs[0].folder == str(other)
    assert (payload.runs[0].scorer, payload.runs[0].kernel) == ("fastv", "linear")
    assert payload.methods[0].flops == 3e12
    assert payload.provenance[0].versions == {"vispco": "0.0.0"}


def test_a_static_search_converges_budget_by_budget(other):
    found = build([other]).convergence
    assert [one.label for one in found] == [f"fastv-linear, {b}%" for b in (20, 40, 60, 70, 90)]
    assert found[0].steps == tuple(range(8))
    assert found[0].series["kl"][0] == pytest.approx(0.6)


def test_a_sweep_is_known_by_its_journal(run, other, tmp_path):
    frontier = Frontier.load(run / "grid.frontier.json")
    for number, (name, model) in enumerate([("ours", "invented-vl"), ("theirs", "another-vl")]):
        frontier.save(tmp_path / f"{name}.frontier.json")
        identity = {"strategy": "grid", "seed": 3, "fingerprint": {"model": model, "scorer": {"name": "fastv"}}}
        with (tmp_path / "journal.log").open("a") as journal:
            journal.write(json.dumps({"op_code": 0, "study_name": name}) + "\n")
            journal.write(json.dumps({"op_code": 2, "study_id": number, "user_attr": {"vispco": identity}}) + "\n")
            journal.write('{"op_code": 2, "study_id": 0, "user_attr": {"vispco": ...cut off\n')
    payload = build([other, tmp_path])
    assert [(r.label, r.model, r.scorer) for r in payload.runs[1:]] == [
        ("ours", "invented-vl", "fastv"),
        ("theirs", "another-vl", "fastv"),
    ]
    searched = Frontier.load(other / "frontier.json")
    assert payload.methods[0].ratio == pytest.approx(searched.hypervolume_ratio(frontier))
    assert payload.methods[2].ratio == pytest.approx(1.0)  # of its own model's sweeps alone


def test_values_that_are_not_finite_are_left_out(run, tmp_path):
    Frontier.load(run / "frontier.json").save(tmp_path / "frontier.json")
    lines = [{"iteration": 0, "kl": [1.0, 3.0], "w": math.inf}, {"iteration": 1, "kl": math.nan, "w": 2.0}]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"iterat')
    (found,) = build([tmp_path]).convergence
    assert found.steps == (0.0, 1.0)
    assert found.series == {"kl": (2.0, None), "w": (None, 2.0)}


def test_schedules_of_samples_are_shown_as_their_mean(tmp_path):
    task = TaskResult("word", 0.5, 0.4, 0.6, 10)
    found = Evaluation((task,), 0.5, 0.4, 0.6, {"exact": 1e9}, {"exact": 0.4})
    Frontier([Point(Schedule(((1.0, 0.5), (1.0, 0.0))), found)]).save(tmp_path / "frontier.json")
    point = build([tmp_path]).runs[0].points[0]
    assert (point.retention, point.samples, point.seconds) == ((1.0, 0.25), 2, None)


def test_runs_of_one_name_are_told_apart(run):
    assert [r.label for r in build([run, run]).runs if r.kind == "empirical"] == [
        "fastv-multi-step/grid",
        "fastv-multi-step/grid #2",
    ]


@pytest.mark.parametrize("name", ["config.json", "bench.json", "areas.json", "examples.json", "frontier.json"])
def test_a_damaged_file_is_named(run, tmp_path, name):
    for file in run.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / name).write_text('{"half')
    with pytest.raises(InvalidInputError, match=name):
        build([tmp_path])


def test_a_folder_without_a_frontier_is_refused(tmp_path):
    with pytest.raises(InvalidInputError, match=r"frontier\.json"):
        build([tmp_path])
    with pytest.raises(InvalidInputError, match="no run"):
        build([tmp_path / "nowhere"])
    with pytest.raises(InvalidInputError, match="No run"):
        build([])


def test_a_comparison_and_a_sweeps_call_are_shown_beside_a_run(run, tmp_path):
    folder = tmp_path / "compare"
    folder.mkdir()
    evaluation = Frontier.load(run / "grid.frontier.json").points[0].evaluation
    row = Row("random-40", evaluation, FlopsBill(), 12.5, 40)
    facts = {"command": ["vispco", "compare", "searches", "a model"], "seed": 3}
    Comparison(0.5, "exact", (row,), facts).save(folder / "comparison.json")
    shutil.copy(run / "grid.frontier.json", folder / "grid.frontier.json")
    (folder / "grid.run.json").write_text(json.dumps({"command": ["vispco", "sweep"], "seed": 1}))
    payload = build([folder])
    (table,) = payload.comparisons
    assert table.label == "compare, at 50% of FLOPs"
    assert table.rows[0][0] == "random-40"
    assert table.rows[0][table.columns.index("evaluations")] == "40"
    told = {source.label: (source.command, source.seed) for source in payload.provenance}
    assert told == {"grid": ("vispco sweep", 1), "compare, comparison": ("vispco compare searches 'a model'", 3)}


def test_sweeps_stand_beside_a_search_on_equal_terms(run, other):
    payload = build([run, other])
    searched = [curve for curve in payload.hypervolume if curve.kind == "searched"]
    assert [table.label for table in payload.equal_terms] == [curve.label for curve in searched]
    sweep = next(curve for curve in payload.hypervolume if curve.kind == "empirical")
    for table, own in zip(payload.equal_terms, searched, strict=True):
        price = "flops" if own.flops and sweep.flops else "cost"
        costs, spent = getattr(sweep, price), getattr(own, price)[-1]
        assert table.rows[0][0] == own.label
        (row,) = [row for row in table.rows if row[0] == sweep.label]
        before = [value for cost, value in zip(costs, sweep.value, strict=True) if cost <= spent]
        assert row[3] == (f"{max(before):.4f}" if before else "–")
        after = [cost for cost, value in zip(costs, sweep.value, strict=True) if value >= own.value[-1]]
        assert row[4] == (f"{min(after) / spent:.2f} ×" if after else "not reached")


def test_a_comparison_of_several_budgets_has_a_table_on_equal_terms(run):
    tables = {table.label.rpartition(", ")[2]: table for table in build([run]).comparisons}
    equal = tables["on equal terms"]
    assert [row[0] for row in equal.rows] == ["vispco", "tpe-joint"]
    assert equal.rows[1][2] == "1.00"
    assert equal.rows[1][4] == "not reached"


def test_the_unpruned_model_and_a_verdict_are_on_the_page(tmp_path):
    payload = build([write_run(tmp_path / "run")])
    run = payload.runs[0]
    assert run.unpruned is not None
    assert run.verdict.startswith(f"The unpruned model reaches {run.unpruned:.1%} on the same items.")
    assert [(row.task, row.items) for row in run.unpruned_tasks] == [
        (row.task, row.items) for row in run.points[run.frontier[-1]].tasks
    ]
    assert all(row.items > 0 for row in run.unpruned_tasks)
    assert payload.runs[1].verdict == ""  # of a sweep, the same items are not known
    assert payload.bench[0].note == "Batches of 4."


def test_full_servable_and_cacheable_searches_stand_side_by_side(tmp_path):
    spaces = {"whole": {}, "served": {"servable": True}, "cached": {"cacheable": True}}
    for number, (name, limits) in enumerate(spaces.items()):
        folder = tmp_path / name
        folder.mkdir()
        searched(skill=1 - 0.1 * number).save(folder / "frontier.json")
        config = {"format": "vispco-search", "mode": "joint", "model": "m", "scorers": ["divprune"], **limits}
        (folder / "config.json").write_text(json.dumps(config))
    folders = [tmp_path / name for name in spaces]
    (table,) = build(folders, budgets=(0.5, 1.0)).spaces
    assert table.columns == ("FLOPs, %", "full (whole), %", "servable (served), %", "cacheable (cached), %")
    assert [row[0] for row in table.rows] == ["50", "100", "hypervolume"]
    for place, folder in enumerate(folders, 1):
        frontier = Frontier.load(folder / "frontier.json")
        assert table.rows[0][place] == f"{100 * frontier.pick(0.5).evaluation.accuracy:.1f}"
    assert build(folders[:1]).spaces == ()
