"""What the README says is so."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def module(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def test_the_table_of_figures_is_what_the_benchmarks_wrote():
    readme = module(ROOT / "benchmarks" / "readme.py")
    text = (ROOT / "README.md").read_text()
    assert readme.updated(text, readme.table()) == text, "run: python benchmarks/readme.py"


def test_a_figure_that_misses_its_bar_is_marked(tmp_path):
    readme = module(ROOT / "benchmarks" / "readme.py")
    figures = {
        "good": {"value": 0.95, "better": "higher", "bar": 0.9, "unit": "ratio"},
        "bad": {"value": 0.2, "better": "lower", "bar": 0.1, "unit": "ratio"},
    }
    (tmp_path / "x.json").write_text(json.dumps({"figures": figures}))
    good, bad = readme.table(tmp_path).splitlines()[2:]
    assert "not reached" not in good
    assert "not reached" in bad


def test_many_figures_of_one_kind_share_a_row(tmp_path):
    readme = module(ROOT / "benchmarks" / "readme.py")
    plain = {"better": "higher", "bar": None, "unit": "points"}
    figures = {"methods": {"value": 9, "better": "higher", "bar": 8, "unit": "count"}}
    for number in range(9):
        figures |= {f"area.m{number}.{model}": {**plain, "value": number / 10} for model in ("a", "b")}
        figures |= {f"gain_of.m{number}.30%": {**plain, "value": -number}} if number else {}
    figures["few.x.y"] = {**plain, "value": 1}
    (tmp_path / "x.json").write_text(json.dumps({"figures": figures}))
    rows = readme.table(tmp_path).splitlines()[2:]
    assert [row.split(" |")[0] for row in rows[:3]] == [
        "| methods",
        "| few, x, y",
        "| each: area (a, b); gain of (30%)",
    ]
    assert rows[3:5] == ["| m0 | 0, 0; – | | |", "| m1 | 0.1, 0.1; -1 | | |"]
    assert len(rows) == 12


@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks" / "results").glob("*.json")), ids=lambda p: p.stem)
def test_results_have_the_agreed_form(path):
    data = json.loads(path.read_text())
    assert data.keys() >= {"command", "versions", "machine", "seed", "figures", "details"}
    for figure in data["figures"].values():
        assert figure.keys() == {"value", "better", "bar", "unit"}
        assert figure["better"] in ("higher", "lower")
