"""Executes the notebooks here and keeps what they put out: `make notebook`."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent


def executed(path: Path, folder: Path) -> nbformat.NotebookNode:
    """Run a notebook from top to bottom with `folder` as its working directory; an error in a cell is an error here."""
    notebook = nbformat.read(path, as_version=4)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ["PYTHONWARNINGS"] = "ignore"  # of the notebook's own widgets, with paths of this machine in them
    client = NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(folder)}})
    client.execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # times of day: nothing that a reader needs
    return notebook


def main() -> None:
    for path in sorted(FOLDER.glob("*.ipynb")):
        with tempfile.TemporaryDirectory() as scratch:
            nbformat.write(executed(path, Path(scratch)), path)


if __name__ == "__main__":
    main()
