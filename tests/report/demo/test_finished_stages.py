"""A folder holds one demo."""

import json

import pytest

from vispco.core.errors import InvalidInputError
from vispco.core.runs.run_folder import RunFolder
from vispco.report.demo.finished_stages import FinishedStages
from vispco.report.demo.outcome import large_layers


@pytest.fixture
def folder(tmp_path):
    with RunFolder(tmp_path / "demo").claim("demo", {}) as claimed:
        yield claimed


def test_a_finished_stage_is_known_to_the_next_run(folder):
    first = FinishedStages(folder, {"seed": 0, "budgets": (0.5,)})
    assert "search" not in first
    first.add("search", 3.0)
    second = FinishedStages(folder, {"seed": 0, "budgets": (0.5,)})
    assert "search" in second
    assert second.stages == {"search": 3.0}


def test_another_demo_in_the_folder_is_refused_by_what_differs(folder):
    FinishedStages(folder, {"seed": 0, "trials": 4}).add("search", 3.0)
    with pytest.raises(InvalidInputError, match=r"another seed\. Give the same options"):
        FinishedStages(folder, {"seed": 1, "trials": 4})


def test_a_damaged_list_is_named(folder):
    (folder.path / "demo.json").write_text("{")
    with pytest.raises(InvalidInputError, match=r"demo\.json is damaged"):
        FinishedStages(folder, {})


def test_a_demo_leads_with_what_large_layers_gain_where_it_timed_them(tmp_path):
    found = {"budget": 0.5, "speedup": 1.9, "unpruned_ms": 2000.0, "pruned_ms": 1050.0}
    (tmp_path / "bench.json").write_text(json.dumps({"rows": [], "large_layers": found}))
    assert "50% of the FLOPs come 1.90 × as fast" in large_layers(tmp_path)
    assert "starting operations" in large_layers(tmp_path)
    (tmp_path / "bench.json").write_text(json.dumps({"rows": []}))
    assert large_layers(tmp_path) == ""
