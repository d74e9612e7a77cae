"""A folder holds one demo."""

import pytest

from vispco.demo.kept import Kept
from vispco.errors import InvalidInputError


def test_a_finished_stage_is_known_to_the_next_run(tmp_path):
    first = Kept(tmp_path, {"seed": 0, "budgets": (0.5,)})
    assert "search" not in first
    first.add("search", 3.0)
    second = Kept(tmp_path, {"seed": 0, "budgets": (0.5,)})
    assert "search" in second
    assert second.stages == {"search": 3.0}


def test_another_demo_in_the_folder_is_refused_by_what_differs(tmp_path):
    Kept(tmp_path, {"seed": 0, "trials": 4}).add("search", 3.0)
    with pytest.raises(InvalidInputError, match=r"another seed\. Give the same options"):
        Kept(tmp_path, {"seed": 1, "trials": 4})


def test_a_damaged_list_is_named(tmp_path):
    (tmp_path / "demo.json").write_text("{")
    with pytest.raises(InvalidInputError, match=r"demo\.json is damaged"):
        Kept(tmp_path, {})
