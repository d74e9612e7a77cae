"""`--plugin FILE`: a scorer of one's own in one file, from every command that can name it."""

from __future__ import annotations

import json

import pytest

from vispco.core import plugins
from vispco.core.registry import preserved

SCORER = '''
from vispco.scorers import Scorer, register


@register
class Own(Scorer):
    """The norm of the state that enters the layer."""

    name = "own-norm"
    needs_attention = False
    needs_hidden = True

    def score(self, context):
        return context.hidden.float().norm(dim=-1)
'''
TASK = ("--tasks", "attribute")
COMMANDS = {
    "evaluate": ("--method", "divprune+own-norm", "--budget", "0.6", "--limit", "2", *TASK),
    "check": ("--scorer", "own-norm"),
    "bench": ("--method", "own-norm", "--rounds", "1", "--new-tokens", "2", *TASK),
    "sweep": ("--scorer", "own-norm", "--strategy", "random", "--trials", "1", "--limit", "1", "--workers", "1", *TASK),
    "search": ("--scorer", "own-norm", "--mode", "line", "--kernel", "single", "--budgets", "0.5", "--samples", "1",
               "--test", "1", "--examples", "0", *TASK),
}  # fmt: skip


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    monkeypatch.setattr(plugins, "_LOADED", {})
    path = tmp_path / "my_scorer.py"
    path.write_text(SCORER)
    with preserved():
        yield path


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_a_scorer_of_ones_own_runs_in_every_command(command, plugin, invoke, tmp_path):
    out = () if command in ("check", "evaluate") else ("--out", tmp_path / ("b.json" if command == "bench" else "run"))
    model = "tiny-qwen" if command == "check" else "tiny-llava"
    done = invoke(command, model, "--plugin", plugin, *COMMANDS[command], *out, "--json")
    assert done.code == 0, done.err
    if command == "bench":  # the child process that measures memory knows the scorer, too
        assert all(row["peak_bytes"] > 0 for row in done.json["rows"])


def test_methods_of_ones_own_stand_beside_published_ones(plugin, invoke, tmp_path):
    few = ("--budgets", "0.6", "--draws", "0", "--rounds", "0", "--search", "none", "--compensations", "none")
    names = "own-norm,divprune+own-norm@3,fastv"
    asked = ("--plugin", plugin, "--methods", names, *few, *TASK, "--test", "2", "--out", tmp_path / "m", "--json")
    done = invoke("compare", "methods", "tiny-llava", *asked)
    assert done.code == 0, done.err
    rows = {(row["method"], row["kind"]): row for row in done.json["rows"]}
    for name in names.split(","):
        assert rows[name, "scaled"]["fraction"] <= 0.6
    assert "no paper sets it" in rows["own-norm", "published"]["note"]
    assert rows["fastv", "published"]["note"] == ""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x = 1 / 0", "stopped with ZeroDivisionError: division by zero (line 1)"),
        ("def f(:", "SyntaxError"),
        ("x = 1", "registers nothing"),
        ("raise SystemExit(3)", "SystemExit"),
        (SCORER.replace("own-norm", "fastv"), "registered already"),
        (None, "is no Python file"),
    ],
)
def test_a_bad_plugin_is_told_in_a_sentence(text, told, plugin, invoke):
    plugin.unlink()
    if text is not None:
        plugin.write_text(text)
    done = invoke("evaluate", "tiny-llava", "--plugin", plugin, "--method", "own-norm")
    assert done.code == 1
    assert told in done.err
    assert "Traceback" not in done.err


def test_nothing_runs_unless_a_person_asks(plugin, invoke, tmp_path):
    plugin.write_text("raise RuntimeError('ran')")
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"plugin": str(plugin)}))
    done = invoke("evaluate", "tiny-llava", "--config", config)
    assert done.code == 1
    assert "unknown options: plugin" in done.err
