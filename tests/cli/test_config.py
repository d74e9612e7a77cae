"""Options from a file: the command line overrides them, unknown ones are refused, a run keeps what it ran with."""

from __future__ import annotations

import json

import pytest

from vispco.cli import config, main


def files(app, prefix=""):
    """Every command by its full name, with its function."""
    for command in app.registered_commands:
        yield f"{prefix}{command.name}", command.callback
    for group in app.registered_groups:
        yield from files(group.typer_instance, f"{prefix}{group.name} ")


COMMANDS = dict(files(main.app))
SERVERS = {"play", "serve", "vllm-args"}  # they write no files and print no result; each has tests of its own


def test_a_file_gives_options_and_the_command_line_overrides_them(invoke, tmp_path):
    path = tmp_path / "options.yaml"
    path.write_text("model: tiny-qwen\nvisual: 100\ntext: 7\njson: true\n")
    done = invoke("info", "--config", path, "--visual", "50")
    assert done.code == 0, done.err
    assert (done.json["model"], done.json["visual_tokens"], done.json["text_tokens"]) == ("tiny-qwen", 50, 7)


def test_a_section_of_a_file_is_for_its_command(invoke, tmp_path):
    path = tmp_path / "options.json"
    path.write_text(json.dumps({"info": {"visual": 9, "json": True}, "search": {"kernel": "single"}}))
    assert invoke("info", "tiny-qwen", "--config", path).json["visual_tokens"] == 9


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_refuses_unknown_options_by_name(invoke, tmp_path, command):
    path = tmp_path / "options.yaml"
    path.write_text("colour: blue\n")
    done = invoke(*command.split(), "--config", path)
    assert done.code == 1
    assert "unknown options: colour" in done.err
    assert f"`vispco {command}` takes" in done.err


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_says_when_the_file_is_not_there(invoke, tmp_path, command):
    done = invoke(*command.split(), "--config", tmp_path / "none.yaml")
    assert done.code == 1
    assert "none.yaml cannot be read: No such file or directory." in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("a.yaml", "a: [1\n", "is not YAML"),
        ("a.json", "{", "is not JSON"),
        ("a.yaml", "- 1\n", "holds no options"),
        ("a.yaml", "visual: {a: 1}\n", "gives an object for visual"),
    ],
)
def test_a_file_that_is_none_is_told_apart(invoke, tmp_path, name, text, sentence):
    (tmp_path / name).write_text(text)
    done = invoke("info", "tiny-qwen", "--config", tmp_path / name)
    assert done.code == 1
    assert sentence in done.err


def test_a_value_of_the_wrong_kind_is_a_usage_error(invoke, tmp_path):
    (tmp_path / "a.yaml").write_text("visual: many\n")
    done = invoke("info", "tiny-qwen", "--config", tmp_path / "a.yaml")
    assert done.code == 2
    assert "--visual" in done.err


def test_what_a_run_kept_is_a_config(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"format": "vispco-search", "command": ["vispco"], "options": {"kernel": "single"}}))
    assert config.read_options(path, "search") == {"kernel": "single"}


def test_lists_are_commas_unless_an_option_may_come_several_times(invoke, tmp_path, monkeypatch):
    seen = {}

    def stand_in(runs: list[str], *, budgets: str = "1", kl: bool = False) -> None:
        seen.update(runs=runs, budgets=budgets, kl=kl, facts=config.facts())

    import typer

    app = typer.Typer(pretty_exceptions_enable=False)
    app.command("other")(lambda: None)
    app.command("one")(stand_in)
    config.configure(app)
    monkeypatch.setattr(main, "app", app)
    path = tmp_path / "o.yaml"
    path.write_text("runs: [a, b]\nbudgets: [0.2, 0.5]\nkl: true\nseed:\n".replace("seed:\n", ""))
    assert invoke("one", "--config", path).code == 0
    assert (seen["runs"], seen["budgets"], seen["kl"]) == (["a", "b"], "0.2,0.5", True)
    assert seen["facts"]["options"] == {"runs": ["a", "b"], "budgets": "0.2,0.5", "kl": True}
    assert seen["facts"]["command"] == ["vispco", "one", "--config", str(path)]
    assert {"vispco", "python", "torch", "transformers"} <= set(seen["facts"]["versions"])
    assert seen["facts"]["machine"]["cores"] >= 1
