"""What a figure shows is computed without drawing: checked here, number by number."""

import json
import subprocess
import sys

import pytest

from report.invented import LAYERS, example, searched, swept
from vispco.core.errors import InvalidInputError
from vispco.core.schedule import Schedule
from vispco.data.files.sampling import equalise_areas
from vispco.evaluation.frontier import Frontier, Point
from vispco.report import plots
from vispco.report.examples import pack, unpack
from vispco.report.plots.figures import _planned
from vispco.report.run_files import read


def test_configurations_are_all_points_and_both_fronts():
    info = plots.configurations_info(swept(), searched())
    assert len(info.empirical.cost) == len(swept())
    assert sum(info.empirical.optimal) == len(swept().front)
    assert info.searched.accuracy == tuple(p.accuracy for p in searched())
    assert info.axis == "exact:fraction"
    assert plots.configurations_info(None, searched()).empirical is None


def test_a_sweep_in_another_folder_is_drawn_with_the_search_of_its_model(tmp_path):
    settings = {"model": "invented-vl", "scorer": "fastv"}
    for name, more in (("search", {}), ("sweep", {}), ("elsewhere", {"model": "another-vl"})):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps(settings | more))
    searched().save(tmp_path / "search" / "frontier.json")
    swept().save(tmp_path / "sweep" / "grid.frontier.json")
    swept(20).save(tmp_path / "elsewhere" / "few.frontier.json")
    runs = [read(tmp_path / name) for name in ("search", "sweep", "elsewhere")]
    plan = _planned(runs)
    assert {"configurations-search", "configurations-elsewhere"} == {n for n in plan if n.startswith("configurations")}
    (together,) = plan["configurations-search"].args
    assert len(together.empirical.cost) == len(swept())
    assert len(together.searched.cost) == len(searched())
    (alone,) = plan["configurations-elsewhere"].args
    assert alone.searched is None


def test_survivors_say_what_was_answered():
    one = example(1, searched())
    info = plots.survivors_info(one, [0.5, 0.25])
    assert info.question == one.question
    assert info.answers == tuple(next(s.answer for s in one.states if s.budget == budget) for budget in info.budgets)


def test_configurations_share_the_axis_of_the_first():
    info = plots.configurations_info(swept().on("paper:flops"), searched())
    assert info.searched.axis == info.empirical.axis == "paper:flops"


def test_frontiers_hold_their_optimal_points_in_order():
    info = plots.frontiers_info({"ours": searched(), "grid": swept()}, "method")
    assert [line.label for line in info.lines] == ["ours", "grid"]
    assert info.lines[1].points == tuple((swept().cost(p), p.accuracy) for p in swept().front)
    with pytest.raises(InvalidInputError, match="No frontier"):
        plots.frontiers_info({})


def test_retention_by_budget_leaves_out_what_nothing_meets():
    info = plots.retention_by_budget_info(searched(), [0.01, 0.5, 0.9])
    assert [label for label, _ in info.curves] == ["50%", "90%"]
    assert info.curves[0][1] == searched().pick(0.5).schedule.retention


def test_budgets_with_the_same_schedule_are_one_curve():
    cost = max(p.evaluation.fraction["exact"] for p in searched() if p.schedule.retention[-1] < 1)
    info = plots.retention_by_budget_info(searched(), [cost + 0.01, cost + 0.02])
    assert [label for label, _ in info.curves] == [f"{cost + 0.01:.0%}–{cost + 0.02:.0%}"]


def test_retention_by_kernel_is_what_each_picks():
    found = {"multi-step": searched(), "linear": searched("linear"), "none": Frontier()}
    info = plots.retention_by_kernel_info(found, 0.5)
    assert [label for label, _ in info.curves] == ["multi-step", "linear"]
    assert info.curves[1][1] == searched("linear").pick(0.5).schedule.retention


def test_retention_of_samples_is_their_mean():
    point = Point(Schedule(((1.0, 0.5), (1.0, 0.0))), searched().points[0].evaluation)
    info = plots.retention_by_kernel_info({"steps": Frontier([point])}, 1.0)
    assert info.curves == (("steps", (1.0, 0.25)),)


def test_survivors_are_the_tokens_deeper_than_the_layer():
    shown = example(0, searched())
    info = plots.survivors_info(shown, [0.5], [0, 5, LAYERS - 1])
    state = next(s for s in shown.states if s.budget == 0.5)
    depth = unpack(state.depth, shown.rows, shown.columns)
    for place, layer in enumerate((0, 5, LAYERS - 1)):
        assert info.masks[0][place] == tuple(tuple(d > layer for d in row) for row in depth)
    assert all(map(all, info.masks[0][0]))  # layer 0 sees every token


def test_depth_is_packed_without_loss():
    assert unpack(pack([0, 1, 2, 255, 4, 5]), 2, 3) == [[0, 1, 2], [255, 4, 5]]


def test_areas_are_the_sample_s_own():
    sample = equalise_areas([10.0, 20.0, 20.0, 90.0], 8, bins=4)
    info = plots.areas_info(sample)
    assert dict(info.panels) == {"before": sample.before, "after": sample.after}
    assert info.left[0] == 10.0
    assert sum(info.width) == pytest.approx(80.0)


def test_search_cost_rises_in_time_and_accuracy():
    info = plots.search_cost_info({"grid": swept()}, {"ours": (searched(), 12.0)}, budget=0.5)
    (_, seconds, accuracy), ours = info.lines
    assert list(seconds) == sorted(seconds)
    assert list(accuracy) == sorted(accuracy)
    assert accuracy[-1] == swept().pick(0.5).accuracy
    assert seconds[-1] == pytest.approx(sum(p.evaluation.seconds for p in swept()))
    assert ours == ("ours", (12.0,), (searched().pick(0.5).accuracy,))


def test_infos_do_not_import_matplotlib():
    program = "import sys, vispco.report.plots, vispco.report; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
