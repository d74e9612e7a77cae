"""The opening of a page says what was measured, and no more."""

import json
import shutil

import pytest

from vispco.core.schedule import Schedule
from vispco.report import build
from vispco.report.summary import chain_rows


@pytest.fixture
def copy(run, tmp_path):
    return shutil.copytree(run, tmp_path / run.name)


def retimed(folder, speedup):
    bench = json.loads((folder / "bench.json").read_text())
    for row in bench["rows"][1:]:
        row["speedup"]["ttft"] = speedup
    (folder / "bench.json").write_text(json.dumps(bench))
    return build([folder]).summary


def test_it_tells_work_answer_and_measured_speed(run):
    payload = build([run])
    summary = payload.summary
    point = min(
        (p for p in payload.runs[0].points if p.accuracy >= payload.runs[0].unpruned - 0.02), key=lambda p: p.fraction
    )
    assert summary.headline.startswith(f"{point.fraction * 100:.0f}\u202f% of the work, the same answer, ")
    assert summary.headline.endswith("× as fast")
    assert f"{point.fraction * 100:.0f}%" in payload.runs[0].verdict  # the two agree
    example = payload.examples[summary.example]
    assert example.unpruned_correct


def test_what_is_not_faster_is_said_with_its_reason(copy):
    summary = retimed(copy, 0.97)
    assert summary.headline.endswith("but no faster here")
    assert "starting operations" in summary.time


def test_what_was_not_timed_is_not_claimed(copy):
    (copy / "bench.json").unlink()
    summary = build([copy]).summary
    assert "fast" not in summary.headline
    assert "not measured" in summary.time


def test_without_pictures_no_answer_is_claimed(copy):
    (copy / "examples.json").unlink()
    summary = build([copy]).summary
    assert summary.example is None
    assert "answer" not in summary.headline


def test_chains_say_who_chose_before_each_block_and_layer():
    schedule = Schedule((0.5, 0.5, 0.2), (1.0, 0.7, 0.5))
    stages = [{"layer": 0, "scorer": "divprune"}, {"layer": 1, "scorer": "fastv"}]
    found = {
        "chain": "uniform@tower.1+divprune+fastv",
        "share": 1.0,
        "stages": stages,
        "retention": [0.5, 0.5, 0.2],
    }
    row = chain_rows([found], schedule)[0]
    assert row.tower == ("", "uniform", "uniform")
    assert row.scorers == ("", "", "fastv")  # nothing leaves before layer 0 that the tower has not taken
    assert chain_rows([found], Schedule((0.5, 0.5, 0.2)))[0].scorers == ("divprune", "", "fastv")
