"""Searches at several budgets: what each had reached at the cost of vispco's own, and what it paid for as much."""

import json
from dataclasses import dataclass
from typing import ClassVar

import pytest

from compare.searches.synthetic_search import LAYERS, SyntheticEvaluator, make_sizes
from vispco.compare.searches import (
    SEARCHES,
    Choice,
    ComparedBudgets,
    Comparison,
    Rival,
    RivalResult,
    compare,
    comparison_table,
    equal_terms_table,
    get,
    get_searches,
    search_names,
)
from vispco.compare.searches.comparison_views import CostCurve, equal_terms_rows
from vispco.compare.searches.search_comparison import Reached
from vispco.compare.searches.search_registry import DEFAULT
from vispco.core.registry import preserved
from vispco.core.schedule import Schedule
from vispco.evaluation.frontier import hypervolume
from vispco.search.bill import FlopsBill

OTHER = ((20, 14), (80, 50))
BUDGETS = (0.4, 0.7)


@dataclass(frozen=True)
class Own(Rival):
    """Stands for vispco's own search: measures a few single steps and takes the best."""

    name: ClassVar[str] = "vispco"

    looks: int = 4

    def _search(self, calibration, budget):
        curves = [Schedule.single(1 + place % (LAYERS - 1), 0.3, LAYERS) for place in range(self.looks)]
        scores = calibration.scores([calibration.sizes.fit(curve, budget) for curve in curves])
        return Choice(curves[scores.index(max(scores))])


@pytest.fixture(autouse=True)
def own_search():
    with preserved():
        SEARCHES._items.pop("vispco")
        SEARCHES.register(Own)
        yield


def compared(methods, beyond=1.0, **options):
    test = SyntheticEvaluator(make_sizes(*OTHER))
    return compare(SyntheticEvaluator(), test, ComparedBudgets(0.5, BUDGETS, beyond), methods, **options)


def test_a_row_has_what_was_reached_at_each_part_of_the_bill():
    found = compared(["random-3", "vispco", "single-grid"], beyond=2.0)
    assert [row.method for row in found.rows] == ["unpruned", "random-3", "vispco", "single-grid"]
    drawn, own, grid = found.rows[1:]
    assert len(own.reached) == len(grid.reached) == 1
    bill = own.spent.total
    assert [round(each.flops / bill, 1) >= share for each, share in zip(drawn.reached, (0.25, 0.5, 1, 2), strict=True)]
    assert drawn.spent.total >= 2 * bill
    assert drawn.reached[-1].flops == drawn.spent.total
    for row in (drawn, own, grid):
        last = row.reached[-1]
        assert [budget for budget, _, _ in last.points] == [0.4, 0.5, 0.7]
        assert {b: a for b, _, a in last.points}[0.5] == row.evaluation.accuracy
        assert all(fraction <= budget for budget, fraction, _ in last.points)
    values = [each.hypervolume for each in drawn.reached]
    assert values[-1] == max(values)
    assert Comparison.from_dict(json.loads(json.dumps(found.to_dict()))) == found


def test_hypervolume_is_that_of_the_points():
    points = ((0.2, 0.19, 0.5), (0.5, 0.48, 0.8))
    found = Reached(1.0, 2.0, points)
    assert found.hypervolume == pytest.approx((1 - 0.19) * 0.5 + (1 - 0.48) * 0.3)
    assert found.to_dict()["hypervolume"] == found.hypervolume
    assert Reached(0.0, 0.0, ()).hypervolume == hypervolume_of_nothing()


def hypervolume_of_nothing():
    import numpy as np

    return hypervolume(np.empty((0, 2)), (1.0, 0.0))


def test_the_table_asks_both_questions_and_says_what_is_not_reached():
    own = CostCurve("vispco", (100.0,), (0.6,))
    others = [
        CostCurve("slow", (25.0, 50.0, 100.0, 220.0), (0.2, 0.4, 0.5, 0.65)),
        CostCurve("dear", (300.0,), (0.7,)),
        CostCurve("free", (0.0,), (0.3,)),
    ]
    columns, rows = equal_terms_rows(own, others)
    assert columns[3:] == ("at vispco's cost", "reaches vispco's at")
    assert [row[3:] for row in rows] == [
        ("0.6000", "1.00 ×"),
        ("0.5000", "2.20 ×"),
        ("–", "3.00 ×"),
        ("0.3000", "not reached"),
    ]
    assert [row[1:3] for row in rows] == [
        ("0.6000", "1.00"),
        ("0.6500", "2.20"),
        ("0.7000", "3.00"),
        ("0.3000", "0.00"),
    ]


def test_a_comparison_of_one_budget_or_without_vispco_has_no_such_table():
    one = compare(SyntheticEvaluator(), SyntheticEvaluator(), 0.5, ["vispco", "random-2"])
    assert equal_terms_table(one) is None
    assert one.rows[1].reached == ()
    assert "reached" not in one.rows[1].to_dict()
    assert equal_terms_table(compared(["random-2"])) is None
    both = equal_terms_table(compared(["random-2", "vispco"]))
    assert [row[0] for row in both[1]] == ["vispco", "random-2"]
    assert comparison_table(one)[0][0] == "method"


def test_a_stopped_comparison_goes_on_and_another_bill_is_searched_again():
    seen = []
    first = compared(["vispco", "random-2"])
    again = compared(["vispco", "random-2", "vtw"], done=first.rows, on_method=seen.append)
    assert seen == ["vtw"]
    assert again.rows[:3] == first.rows
    compared(["vispco", "random-2"], done=first.rows, beyond=2.0, on_method=seen.append)
    assert seen == ["vtw", "random-2"]


def test_a_method_that_cannot_meet_the_budget_is_told_and_the_others_go_on():
    test = SyntheticEvaluator(make_sizes(*OTHER))
    told = []
    asked = ComparedBudgets(0.5, (0.01,))
    found = compare(SyntheticEvaluator(), test, asked, ["vispco", "vtw"], on_row=told.append)
    row = found.rows[1]
    assert "below the floor" in row.provenance["under_floor"]["0.01"]
    assert [budget for budget, _, _ in row.reached[-1].points] == [0.5]
    assert len(told) == 2


def test_all_defaults_are_searches_and_names_lead_to_methods():
    with preserved():
        assert {search.label for search in get_searches(DEFAULT)} >= {"vispco", "tpe-joint", "scaled", "random-40"}
    assert {search.label for search in get_searches(["all"])} == {search.label for search in get_searches()}
    assert {"scaled", "scaled:METHOD", "random-N", "tpe-joint", "downsample"} <= set(search_names())
    assert get("scaled:sparsevlm:64").label == "scaled:sparsevlm:64"


class AllAtOnce:
    """A search that learns all budgets in one go, as vispco's own does."""

    label, learns_all_budgets = "vispco", True

    def settings(self):
        return {}

    def search_budgets(self, calibration, budgets):
        bill, sizes = FlopsBill(measured=5e6), calibration.sizes
        other = make_sizes(*OTHER)
        assert len(sizes) != len(other)
        curve = Schedule.single(1, 0.2, LAYERS)
        return {b: RivalResult("vispco", Choice(other.fit(curve, b)), None, bill, 2.0) for b in budgets}


def test_a_search_that_learns_all_budgets_is_billed_once_and_others_get_that_bill():
    found = compared([AllAtOnce(), "random-2"])
    own, drawn = found.rows[1:]
    assert own.spent.total == own.reached[-1].flops == 5e6
    assert [budget for budget, _, _ in own.reached[-1].points] == [0.4, 0.5, 0.7]
    assert drawn.provenance["bill"] == [5e6, 1.0]
    assert drawn.spent.total >= 5e6
    assert [row[0] for row in equal_terms_table(found)[1]] == ["vispco", "random-2"]
