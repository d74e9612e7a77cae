"""Help texts that name what is registered: `{scorers}` in the help of an option becomes the names of all scorers.

The registries import torch, so names are looked up when the help of a command is shown, not when it is defined.
"""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

from typer.core import TyperCommand, TyperGroup

from vispco.cli.help_page import command_help, group_help

# By the word in braces: where a registry lives, as module:name.
REGISTRIES = {
    "scorers": "vispco.scorers:SCORERS",
    "kernels": "vispco.kernels:KERNELS",
    "costs": "vispco.cost:COSTS",
    "searches": "vispco.rivals:search_names",
    "metrics": "vispco.metrics:METRICS",
    "benchmarks": "vispco.metrics:BENCHMARKS",
    "methods": "vispco.presets:PRESETS",
}
_WORD = re.compile(r"\{(" + "|".join(REGISTRIES) + r")\}")


def names(kind: str) -> list[str]:
    """The names that are registered, those of other packages included."""
    module, _, attribute = REGISTRIES[kind].partition(":")
    found = getattr(import_module(module), attribute)
    return list(found() if callable(found) else found)


def expand(text: str) -> str:
    """A help text with the words in braces replaced by names."""
    return _WORD.sub(lambda match: ", ".join(names(match[1])), text)


class Command(TyperCommand):
    """A command whose help names what is registered."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help, its words in braces replaced."""
        for parameter in self.params:
            text = getattr(parameter, "help", None)
            if text is not None and _WORD.search(text):
                parameter.help = expand(text)  # type: ignore[attr-defined]  # an option or an argument of typer's
        formatter.write(command_help(self, ctx))


class Group(TyperGroup):
    """A group of commands with plain help."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help: commands in groups, then options."""
        formatter.write(group_help(self, ctx))
