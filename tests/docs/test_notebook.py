"""The notebook runs from top to bottom, and is committed with what it put out."""

import importlib.util

import nbformat
import pytest

from docs.pages import ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


@pytest.fixture(scope="module")
def executed():
    spec = importlib.util.spec_from_file_location("execute", ROOT / "notebooks" / "execute.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.executed


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_it_runs(path, executed, tmp_path):
    notebook = executed(path, tmp_path)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in cells)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_it_holds_its_outputs_and_nothing_of_a_machine(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.outputs for cell in cells if not cell.source.startswith("def "))
    kinds = {output.output_type for cell in cells for output in cell.outputs}
    assert "error" not in kinds
    text = path.read_text()
    assert "site-packages" not in text
    assert "stderr" not in text
