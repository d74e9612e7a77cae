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


def test_searches_on_equal_terms_from_the_command_line_resumed_and_reported(monkeypatch, capsys, tmp_path):
    invoke = Invoke(monkeypatch, capsys)
    command = ("compare", "searches", "tiny-qwen", "--tasks", "attribute", "--samples", "1", "--test", "1")
    more = ("--budgets", "0.4", "--out", tmp_path / "run")
    first = invoke(*command, "--searches", "random-2,downsample", *more, "--json")
    assert first.code == 0, first.err
    assert [row["method"] for row in first.json["rows"]] == ["unpruned", "random-2", "downsample"]
    assert [point[0] for point in first.json["rows"][1]["reached"][-1]["points"]] == [0.4, 0.5]
    again = invoke(*command, "--searches", "random-2,downsample,scaled:fastv", *more)
    assert again.code == 0, again.err
    assert "scaled:fastv" in again.out
    rows = json.loads((tmp_path / "run" / "comparison.json").read_text())["rows"]
    assert rows[1] == first.json["rows"][1], "what was done is not searched again"
    other = invoke(*command, "--searches", "random-2", "--budgets", "none", "--out", tmp_path / "run")
    assert other.code != 0
    assert "budgets" in other.err


def test_an_unknown_search_is_refused_with_a_suggestion(monkeypatch, capsys, tmp_path):
    done = Invoke(monkeypatch, capsys)(
        "compare", "searches", "tiny-qwen", "--searches", "tpe-jont", "--out", tmp_path / "new"
    )
    assert done.code != 0
    assert "Did you mean 'tpe-joint'?" in done.err
    assert not (tmp_path / "new").exists()
