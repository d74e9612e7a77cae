"""A small finished search, and commands as a person gives them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cli.invoking import Invoke

SMALL = ("--tasks", "attribute", "--samples", "2", "--test", "2", "--examples", "0", "--budgets", "0.5")
LINE = ("--mode", "line", "--kernel", "single")


@pytest.fixture
def invoke(monkeypatch, capsys):
    return Invoke(monkeypatch, capsys)


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """The folder of a finished search of tiny-llava with fastv."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("searches") / "one"
        code = _search(patch, folder)
    assert code == 0
    return folder


@pytest.fixture
def run(finished, tmp_path):
    """A copy of it that a test may change."""
    return Path(shutil.copytree(finished, tmp_path / "one"))


def _search(patch: pytest.MonkeyPatch, folder: Path) -> int:
    import sys

    from vispco.cli import main

    patch.setattr(sys, "argv", ["vispco", "search", "tiny-llava", "--out", str(folder), *SMALL, *LINE, "--json"])
    try:
        main.run()
    except SystemExit as left:
        return int(left.code or 0)
    return 0


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, by its path."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
