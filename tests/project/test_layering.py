"""The packages import in one direction: the contract of `[tool.importlinter]` in pyproject.toml."""

import re
import tomllib

import grimp
import pytest
from importlinter.cli import lint_imports

from project.sources import ROOT


@pytest.fixture(scope="module")
def graph():
    return grimp.build_graph("vispco", exclude_type_checking_imports=True, cache_dir=None)


def test_the_contract_holds(capsys):
    status = lint_imports(config_filename=str(ROOT / "pyproject.toml"), no_cache=True)
    assert status == 0, capsys.readouterr().out


def test_imports_inside_functions_are_seen(graph):
    """Otherwise a lazy import could hide a cycle from the contract."""
    lazily = graph.get_import_details(importer="vispco.models.loading", imported="vispco.models.processor")
    assert any(line["line_contents"].startswith("from vispco") for line in lazily)


def test_no_module_imports_the_front_door(graph):
    """`vispco/__init__.py` finds names by string, which no linter sees: only people and programs import it."""
    importers = {name for name in graph.find_modules_that_directly_import("vispco") if name != "vispco"}
    assert importers == set()


def test_contributing_shows_the_layers_of_the_contract():
    """Its table is written from the bottom up; modules in brackets may be left out."""
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]["layers"]
    layers = [{name.strip() for name in layer.split(":") if "(" not in name} for layer in contract]
    rows = re.findall(r"^\| (`.+?) \|", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    shown = [set(re.findall(r"`(\w+)`", row)) for row in reversed(rows)]
    assert shown == layers[1:]  # without __main__
