"""What a frontier answers, and what it refuses."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluation.frontier.points import frontier, point
from vispco.core.errors import InvalidInputError
from vispco.evaluation.frontier import Frontier, Point, frontier_info

PAIRS = st.lists(st.tuples(st.floats(0.01, 1), st.floats(0, 1)), max_size=12)


def test_ties_keep_all_equal_points():
    equal = Frontier([point(0.5, 0.7, "a"), point(0.5, 0.7, "b"), point(0.5, 0.6, "worse"), point(0.6, 0.7, "dearer")])
    assert [p.provenance["trial"] for p in equal.front] == ["a", "b"]


def test_pick_takes_the_best_within_the_budget_and_of_equals_the_cheapest():
    found = frontier([(0.2, 0.5, "small"), (0.4, 0.8, "middle"), (0.5, 0.8, "same"), (0.9, 0.9, "large")])
    assert found.pick(0.6).provenance["trial"] == "middle"
    assert found.pick(0.2).provenance["trial"] == "small"
    assert found.pick(1.0).provenance["trial"] == "large"


def test_a_budget_under_every_cost_is_answered_with_the_cheapest():
    with pytest.raises(InvalidInputError, match=r"No point costs at most 0.1 .*the cheapest costs 0.2"):
        frontier([(0.2, 0.5)]).pick(0.1)


def test_an_empty_frontier_says_so():
    empty = Frontier()
    assert (len(empty), empty.front, empty.hypervolume()) == (0, (), 0.0)
    with pytest.raises(InvalidInputError, match="no points"):
        empty.pick(0.5)


def test_one_point_is_a_frontier():
    one = frontier([(0.25, 0.8)])
    assert one.hypervolume() == pytest.approx(0.75 * 0.8)
    assert one.hypervolume_ratio(one) == 1.0


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_numbers_that_are_none_are_refused_with_the_points_name(bad):
    with pytest.raises(InvalidInputError, match=r"accuracy of the point trial=grid:7"):
        point(0.5, bad, "grid:7")
    with pytest.raises(InvalidInputError, match=r"kl of the point trial=grid:8"):
        point(0.5, 0.5, "grid:8", kl=bad)
    with pytest.raises(InvalidInputError, match=r"flops\[exact\] of the point trial=grid:9"):
        point(bad, 0.5, "grid:9")


def test_the_cost_axis_is_chosen():
    points = [point(0.5, 0.7, seconds=3.0), point(0.8, 0.9, seconds=1.0)]
    assert Frontier(points, axis="paper").pick(0.25).accuracy == 0.7
    assert Frontier(points, axis="exact:flops").pick(1.1e12).accuracy == 0.7
    assert [p.accuracy for p in Frontier(points, axis="seconds").front] == [0.9]
    assert points[0].cost["paper"] == {"flops": 0.5e12, "fraction": 0.25}
    with pytest.raises(
        InvalidInputError, match=r"no fraction of the cost model 'latency'; it holds \['exact', 'paper'\]"
    ):
        Frontier(points, axis="latency")
    with pytest.raises(InvalidInputError, match="one of fraction, flops, seconds"):
        Frontier(points, axis="exact:bytes")


def test_a_cost_that_is_no_fraction_needs_a_reference():
    near = frontier([(0.5, 0.7)], axis="exact:flops")
    assert near.hypervolume((2e12, 0.0)) == pytest.approx(1e12 * 0.7)
    with pytest.raises(InvalidInputError, match="needs a reference"):
        near.hypervolume()


@settings(deadline=None, max_examples=50)
@given(PAIRS, PAIRS)
def test_merging_is_a_union_in_any_order(left, right):
    one, other = frontier(left), frontier(right)
    assert one.merge(other) == other.merge(one) == one.merge(other, one)
    assert one.merge(other).hypervolume() >= max(one.hypervolume(), other.hypervolume()) - 1e-12


@settings(deadline=None, max_examples=30)
@given(PAIRS)
def test_a_file_gives_back_the_frontier(tmp_path_factory, pairs):
    path = tmp_path_factory.mktemp("frontier") / "deep" / "frontier.json"
    saved = frontier(pairs)
    saved.save(path)
    assert Frontier.load(path) == saved
    assert [p.name for p in path.parent.iterdir()] == ["frontier.json"]


def test_a_newer_file_is_read_and_its_unknown_keys_ignored(tmp_path):
    path = tmp_path / "frontier.json"
    frontier([(0.5, 0.7)]).save(path)
    data = json.loads(path.read_text())
    assert data["version"] == 1
    data |= {"version": 9, "colour": "blue"}
    data["points"][0] |= {"taste": "sweet"}
    data["points"][0]["evaluation"] |= {"smell": "none"}
    path.write_text(json.dumps(data))
    assert Frontier.load(path) == frontier([(0.5, 0.7)])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "not JSON"),
        ("[]", "not a frontier"),
        ('{"format": "vispco-frontier"}', "not a frontier"),
        (None, "cannot be read"),
    ],
)
def test_a_file_that_is_no_frontier_is_refused_by_name(tmp_path, text, why):
    path = tmp_path / "frontier.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(InvalidInputError, match=rf"frontier\.json.*{why}|{why}"):
        Frontier.load(path)


def test_a_point_that_lacks_something_is_refused(tmp_path):
    path = tmp_path / "frontier.json"
    path.write_text('{"format": "vispco-frontier", "version": 1, "points": [{"schedule": {"retention": [1.0]}}]}')
    with pytest.raises(InvalidInputError, match=r"frontier\.json: .* it has no 'evaluation'"):
        Frontier.load(path)


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "frontier.json"
    good = frontier([(0.5, 0.7)])
    good.save(path)
    broken = Frontier([point(0.5, 0.7)])
    broken.points[0].provenance["model"] = math.nan  # JSON has no NaN
    with pytest.raises(ValueError, match="JSON"):
        broken.save(path)
    assert Frontier.load(path) == good
    assert len(list(tmp_path.iterdir())) == 1


def test_a_plot_shows_all_points_and_a_staircase():
    info = frontier_info(frontier([(0.2, 0.5), (0.4, 0.8), (0.5, 0.6)]))
    assert info.optimal == (True, True, False)
    assert info.steps == ((0.2, 0.5), (0.4, 0.5), (0.4, 0.8))
    assert info.axis == "exact:fraction"
    assert frontier_info(Frontier()).steps == ()


def test_a_mean_over_samples_says_so_and_old_files_are_known_by_their_solver():
    ran = point(0.5, 0.9)
    mean = replace(ran, mean_of=12, provenance={"budget": 0.5, "solver": "table"})
    assert Point.from_dict(mean.to_dict()) == mean
    assert "mean_of" not in ran.to_dict()
    old = {key: value for key, value in mean.to_dict().items() if key != "mean_of"}
    assert Point.from_dict(old).mean_of == sum(task.n for task in mean.evaluation.tasks)
    assert Point.from_dict(ran.to_dict()).mean_of == 0
