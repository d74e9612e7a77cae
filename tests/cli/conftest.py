import pytest

from cli.invoking import Invoke
from report.invented import write_run


@pytest.fixture
def invoke(monkeypatch, capsys):
    return Invoke(monkeypatch, capsys)


@pytest.fixture(scope="package")
def run(tmp_path_factory):
    """The folder of a search and a sweep, invented."""
    return write_run(tmp_path_factory.mktemp("runs") / "run")
