"""`vispco compare searches` from the command line."""

import json

from cli.invoking import Invoke


def test_compare_takes_a_seed_and_notes_it(monkeypatch, capsys, tmp_path):
    command = ("compare", "searches", "tiny-qwen", "--methods", "random-2", "--tasks", "attribute")
    numbers = ("--samples", "1", "--test", "1", "--seed", "3", "--out", tmp_path, "--json")
    done = Invoke(monkeypatch, capsys)(*command, *numbers)
    assert done.code == 0, done.err
    saved = json.loads((tmp_path / "comparison.json").read_text())
    assert saved["details"]["seed"] == 3
    assert saved["rows"][1]["provenance"]["settings"]["seed"] == 3
