"""A comparison that was stopped goes on method by method, and VisPCO's own searches take part on the same bill."""

import pytest

from compare.searches.conftest import evaluator
from compare.searches.synthetic_search import SyntheticEvaluator, make_sizes
from vispco.compare.searches import Calibration, Comparison, SampleSizes, compare, get, narrow_tables, search_cost_info
from vispco.compare.searches.search_comparison import load_finished_rows
from vispco.core.errors import InvalidInputError, UnknownNameError
from vispco.report.plots.search_cost import _axis_positions, draw_searches
from vispco.search.gradient.static import DescentSettings
from vispco.search.search_spec import Effort

OTHER = ((20, 14), (80, 50))
SETTINGS = {"model": "known", "test": {"limit": 2, "seed": 0}}


def compared(methods, **options):
    return compare(
        SyntheticEvaluator(), SyntheticEvaluator(make_sizes(*OTHER)), 0.5, methods, details=SETTINGS, **options
    )


def test_what_is_done_is_not_searched_again(tmp_path):
    path, seen = tmp_path / "comparison.json", []
    with pytest.raises(KeyboardInterrupt):
        compared(["vtw", "random-4"], on_row=lambda found: found.save(path), on_method=stop_at("random-4"))
    assert [row.method for row in Comparison.load(path).rows] == ["unpruned", "vtw"]
    done = load_finished_rows(path, 0.5, "exact", SETTINGS)
    found = compared(["vtw", "random-4"], done=done, on_method=seen.append)
    assert seen == ["random-4"]
    fresh = compared(["vtw", "random-4"])
    assert [(row.method, row.schedule, row.evaluation.accuracy, row.spent) for row in found.rows] == [
        (row.method, row.schedule, row.evaluation.accuracy, row.spent) for row in fresh.rows
    ]


def stop_at(name):
    def told(method):
        if method == name:
            raise KeyboardInterrupt

    return told


def test_methods_are_added_and_other_settings_searched_again(tmp_path):
    path, seen = tmp_path / "comparison.json", []
    compared(["vtw", get("random", n=4)]).save(path)
    done = load_finished_rows(path, 0.5, "exact", SETTINGS)
    found = compared(["single-grid", get("random", n=4, seed=1)], done=done, on_method=seen.append)
    assert seen == ["single-grid", "random-4"]
    assert [row.method for row in found.rows] == ["unpruned", "single-grid", "random-4", "vtw"]
    assert found.rows[2].provenance["settings"]["seed"] == 1


def test_the_file_of_another_comparison_is_refused_and_both_are_named(tmp_path):
    path = tmp_path / "comparison.json"
    assert load_finished_rows(path, 0.5, "exact", SETTINGS) == ()
    compared(["vtw"]).save(path)
    other = {"model": "known", "test": {"limit": 9, "seed": 0}}
    with pytest.raises(
        InvalidInputError, match=r"it has budget=0\.5, test limit=2; this one has budget=0\.4, test limit=9"
    ):
        load_finished_rows(path, 0.4, "exact", other)


def test_names_are_checked_before_anything_is_run():
    with pytest.raises(UnknownNameError, match="vispco-static"):
        get("vispco-best")
    with pytest.raises(InvalidInputError, match="runs the model itself"):
        compared(["vispco-static"])


def test_vispco_takes_part_within_the_budget_and_with_its_bill():
    calibration, test = evaluator(), evaluator()
    effort = Effort(batch_size=2, descent=DescentSettings(starts=1, outer=1, explore=4))
    candidate = get("vispco-static").search(Calibration(calibration), 0.6, effort=effort)
    found = compare(calibration, test, 0.6, [candidate])
    row = found.rows[1]
    assert row.method == "vispco-static"
    assert row.evaluation.fraction["exact"] <= 0.6
    assert row.spent.teacher > 0
    assert row.spent.total > row.spent.teacher
    assert row.provenance["settings"]["solver"] == "projection"
    assert SampleSizes.of(test).num_layers == calibration.num_layers


def test_a_terminal_gets_two_tables_with_all_that_the_one_has():
    found = compared(["vtw", "random-4"])
    (first, costs), (second, accuracies) = narrow_tables(found)
    assert first[0] == second[0] == "method"
    assert first[-1] == "evaluations"
    assert second[1:] == ("average", *found.tasks)
    assert [len(row) for row in (*costs, *accuracies)] == [6] * 3 + [4] * 3


def test_the_figure_shows_every_method_and_takes_searches_that_cost_nothing(tmp_path):
    pytest.importorskip("matplotlib")
    info = search_cost_info(compared(["vtw", "random-4", "single-grid"]))
    assert _axis_positions([0.0, 6.0, 3.0]) == [1.0, 6.0, 3.0]
    assert _axis_positions([0.0]) == [1 / 3]
    text = draw_searches(info, tmp_path / "figure.svg").read_text()
    assert all(name in text for name in ("vtw (no FLOPs)", "random-4", "single-grid", "unpruned"))


def test_a_comparison_without_a_seed_is_one_with_the_default(tmp_path):
    path = tmp_path / "comparison.json"
    compared(["vtw"]).save(path)
    assert len(load_finished_rows(path, 0.5, "exact", {**SETTINGS, "seed": 0})) == 2
    with pytest.raises(InvalidInputError, match="it has seed=0; this one has seed=1"):
        load_finished_rows(path, 0.5, "exact", {**SETTINGS, "seed": 1})
