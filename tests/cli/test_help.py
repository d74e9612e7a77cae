"""Help at 80 columns: nothing is cut off, options stand in groups, and every word of a description is there."""

import re

import pytest
import typer

from cli.test_config import COMMANDS
from vispco.cli import main
from vispco.cli.help_page import LAST, example

GROUPS = ("", "compare", "zoo")


def command(name):
    found = typer.main.get_command(main.app)
    for word in name.split():
        found = found.commands[word]
    return found


@pytest.mark.parametrize("name", [*sorted(COMMANDS), *GROUPS])
def test_help_is_whole_at_80_columns(name, invoke, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    shown = invoke(*name.split(), "--help").out
    assert max(map(len, shown.splitlines())) <= 80
    assert "…" not in shown
    words = " ".join(shown.split())
    for parameter in command(name).params:
        assert all(opt in words for opt in parameter.opts if opt.startswith("-"))
        told = " ".join((getattr(parameter, "help", None) or "").split())
        assert told.partition("{")[0] in words  # names of what is registered stand in the place of a brace


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_says_as_much_as_is_asked_for(name, invoke):
    shown = invoke(*name.split(), "--help").out.partition(f"{LAST}:")[2]
    assert all(option in shown for option in ("--config", "--quiet", "--verbose", "--log-file"))


def test_options_stand_in_groups(invoke):
    shown = invoke("search", "--help").out
    assert re.findall(r"^(\w[\w ]*):$", shown, re.MULTILINE) == [
        "Examples", "Arguments", "Options", "Calibration data", "Evaluation data", "Settings of a search",
        "Loading the model", "General",
    ]  # fmt: skip


def test_descriptions_of_commands_take_one_line(invoke, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    shown = invoke("--help").out
    for name in typer.main.get_command(main.app).commands:
        assert re.search(rf"^  {name} +\w.*\.$", shown, re.MULTILINE), name


def test_a_long_example_is_broken_where_a_shell_goes_on(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    line = "vispco search tiny-qwen --mode static --solver lagrangian --kernel single --budgets 0.3"
    lines = example(line).splitlines()
    assert all(part.endswith(" \\") for part in lines[:-1])
    assert " ".join(part.strip().removesuffix(" \\") for part in lines) == line
    assert not [part for part in lines if part.strip().startswith(("static", "lagrangian", "single"))]
