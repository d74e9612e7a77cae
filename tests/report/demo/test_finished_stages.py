"""A folder holds one demo."""

import pytest

from vispco.core.errors import InvalidInputError
from vispco.core.runs.run_folder import RunFolder
from vispco.report.demo.finished_stages import FinishedStages


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
