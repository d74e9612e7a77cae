import pytest

from cli.invoking import Invoke


@pytest.fixture
def invoke(monkeypatch, capsys):
    return Invoke(monkeypatch, capsys)
