"""Commands as a person gives them, in this process: what they print, and their exit code."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass

import pytest

from vispco.cli import main


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


class Invoke:
    """`invoke("info", "tiny-qwen", "--json")`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.monkeypatch, self.capsys = monkeypatch, capsys
        monkeypatch.setenv("COLUMNS", "200")
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
        monkeypatch.delenv("VISPCO_DEBUG", raising=False)
        monkeypatch.setenv("VISPCO_INPUT_LIMITS", "")  # a command sets it

    def __call__(self, *arguments: object) -> Done:
        self.monkeypatch.setattr(sys, "argv", ["vispco", *map(str, arguments)])
        self.capsys.readouterr()
        code = 0
        try:
            main.run()
        except SystemExit as left:
            code = int(left.code or 0)
        told = self.capsys.readouterr()
        return Done(code, told.out, told.err)


def sound(folder) -> bool:
    """Nothing half-written: no temporary file is left, and every JSON file can be read."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    for path in files:
        if path.suffix == ".json":
            json.loads(path.read_text())
    return not [path for path in files if path.suffix in (".tmp", ".part")]
