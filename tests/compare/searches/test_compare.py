"""The comparison is plain data: every method's result on the test set beside what its search cost."""

import json
from dataclasses import replace

import pytest

from compare.searches.conftest import evaluator
from compare.searches.synthetic_search import LAYERS, SyntheticEvaluator, holds, make_sizes
from vispco.compare.searches import (
    Calibration,
    Choice,
    Comparison,
    RivalResult,
    SampleSizes,
    compare,
    comparison_table,
    get,
    search_cost_info,
)
from vispco.core.errors import InvalidInputError
from vispco.core.schedule import Schedule
from vispco.engine import TokenPlan
from vispco.search.bill import FlopsBill

METHODS = ["vtw", "g-search", get("p-sigmoid-bo", trials=6), "random-4", "single-grid"]
OTHER = ((20, 14), (80, 50))  # the test samples have other sizes


@pytest.fixture(scope="module")
def comparison():
    return compare(
        SyntheticEvaluator(), SyntheticEvaluator(make_sizes(*OTHER)), 0.5, METHODS, details={"scorer": "known"}
    )


def test_rows_are_the_unpruned_model_and_then_the_methods_in_order(comparison):
    names = ["unpruned", "vtw", "g-search", "p-sigmoid-bo", "random-4", "single-grid"]
    assert [row.method for row in comparison.rows] == names
    assert comparison.rows[0].evaluation.fraction["exact"] == 1
    assert comparison.tasks == ("left", "right")
    assert comparison.details["scorer"] == "known"
    assert (comparison.details["calibration_samples"], comparison.details["test_samples"]) == (3, 2)


def test_the_budget_holds_on_test_samples_of_other_sizes(comparison):
    assert all(row.evaluation.fraction["exact"] <= 0.5 for row in comparison.rows[1:])
    sizes = make_sizes(*OTHER)
    for row in comparison.rows[1:]:
        lift = row.method in ("g-search", "p-sigmoid-bo", "random-4")
        assert holds(sizes.fit(row.schedule, 0.5, lift=lift), sizes, 0.5)


def test_a_row_is_what_its_search_alone_finds_and_costs(comparison):
    alone = get("random-4").search(SyntheticEvaluator(), 0.5)
    row = comparison.rows[4]
    assert (row.schedule, row.spent, row.evaluations) == (alone.schedule, alone.spent, alone.evaluations)
    assert row.evaluation == SyntheticEvaluator(make_sizes(*OTHER))(alone.deploy(make_sizes(*OTHER)))


def test_one_json_file_holds_it_all(comparison, tmp_path):
    path = tmp_path / "new" / "comparison.json"
    comparison.save(path)
    assert Comparison.load(path) == comparison
    data = json.loads(path.read_text())
    assert data["rows"][1]["search"]["spent"]["total"] == 0
    data["rows"][0]["new"] = data["new"] = 1  # of a later version
    assert Comparison.from_dict(data).rows[0].method == "unpruned"


@pytest.mark.parametrize("content", ["{", "[]", '{"format": "frontier"}', '{"format": "vispco-comparison"}'])
def test_a_file_that_is_no_comparison_is_refused(content, tmp_path):
    path = tmp_path / "comparison.json"
    path.write_text(content)
    with pytest.raises(InvalidInputError):
        Comparison.load(path)


def test_the_table_has_a_line_for_each_row_and_a_column_for_each_task(comparison):
    columns, rows = comparison_table(comparison)
    assert columns[-3:] == ("left", "right", "average")
    assert "exact" in columns[1]
    assert {len(row) for row in rows} == {len(columns)}
    best = next(line for line in rows if line[0] == "single-grid")
    row = comparison.rows[5]
    assert best[2] == f"{row.evaluation.fraction['exact']:.3f}"
    assert best[5] == str(row.evaluations)
    assert best[-1].startswith(f"{100 * row.evaluation.accuracy:.1f} [")


def test_the_plot_shows_every_search_but_not_the_unpruned_model(comparison):
    info = search_cost_info(comparison)
    assert info.methods == tuple(row.method for row in comparison.rows[1:])
    assert info.flops[0] == 0
    assert info.relative[3] == comparison.rows[4].spent.total / comparison.rows[0].evaluation.flops["exact"]
    assert info.full_accuracy == comparison.rows[0].evaluation.accuracy
    assert all(low <= value <= high for low, value, high in zip(info.low, info.accuracy, info.high, strict=True))


def test_what_another_search_found_takes_part_with_its_own_bill():
    own = RivalResult(
        "vispco", Choice(Schedule.single(2, 0.3, LAYERS)), None, FlopsBill(forward=5.0, backward=10.0), 3.0
    )
    before = replace(get("vtw", start=1).search(SyntheticEvaluator()), method="vtw (eta)")
    said = []
    found = compare(SyntheticEvaluator(), SyntheticEvaluator(), 0.5, [own, before, "vtw"], on_method=said.append)
    assert said == ["vispco", "vtw (eta)", "vtw"]
    assert found.rows[1].spent.total == 15
    assert found.rows[2].schedule == before.schedule


def test_bad_comparisons_are_refused():
    with pytest.raises(InvalidInputError, match="No methods"):
        compare(SyntheticEvaluator(), SyntheticEvaluator(), 0.5, [])
    with pytest.raises(InvalidInputError, match="'vtw' was given twice"):
        compare(SyntheticEvaluator(), SyntheticEvaluator(), 0.5, ["vtw", "vtw"])
    with pytest.raises(InvalidInputError, match="floor"):
        compare(SyntheticEvaluator(), SyntheticEvaluator(), 0.01, ["vtw"])


def test_on_a_model_with_samples_of_many_sizes(calibration, test_set):
    sizes = SampleSizes.of(test_set)

    def planner(layout, _):
        return TokenPlan(Schedule.single(2, 0.2, 10).counts(layout.num_visual))

    methods = ["vtw", "fitprune", "random-2", RivalResult("planned", Choice(planner=planner), None, FlopsBill(), 0.0)]
    found = compare(Calibration(calibration, measure="kl"), test_set, 0.5, methods)
    assert len(set(sizes.num_visual.tolist())) > 1
    for row in found.rows[1:]:
        assert row.evaluation.fraction["exact"] <= 0.5
        assert {task.task for task in row.evaluation.tasks} == {"word", "chart"}
    assert found.rows[-1].schedule is None
    assert found.rows[3].spent.teacher == SampleSizes.of(calibration).total_flops(Schedule.full(10))
    assert Comparison.from_dict(json.loads(json.dumps(found.to_dict()))) == found


def test_a_budget_may_be_by_the_papers_cost_model(calibration, test_set):
    found = compare(Calibration(calibration, cost="paper"), test_set, 0.5, ["vtw"])
    assert found.cost == "paper"
    assert found.rows[1].evaluation.fraction["paper"] <= 0.5
    assert "paper" in comparison_table(found)[0][1]


def test_a_test_evaluator_without_the_budgets_cost_model_is_refused(calibration):
    test = evaluator("test")
    test.costs = {"paper": test.costs["paper"]}
    with pytest.raises(InvalidInputError, match="costs="):
        compare(calibration, test, 0.5, ["vtw"])
