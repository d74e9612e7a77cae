"""docs/commands.md has every command, and every option of it."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from cli.test_config import COMMANDS
from vispco.cli import main

PAGE = Path(__file__).parents[2] / "docs" / "commands.md"
REMEDY = "Run: python docs/write_commands.py"


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_the_page_has_the_command_with_all_of_its_options(name):
    sections = {part.split("`")[1].removeprefix("vispco "): part for part in PAGE.read_text().split("\n## ")[1:]}
    found = next((part for title, part in sections.items() if f"{title} ".startswith(f"{name} ")), None)
    assert found is not None, REMEDY
    command = typer.main.get_command(main.app)
    for word in name.split():
        command = command.commands[word]
    for parameter in command.params:
        shown = parameter.opts if parameter.param_type_name == "option" else [parameter.name.upper()]
        if parameter.name not in ("config", "help", "quiet", "verbose", "log_file"):
            assert f"`{shown[0]}`" in found, REMEDY
