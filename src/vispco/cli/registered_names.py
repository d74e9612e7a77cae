"""Help texts that name what is registered: `{scorers}` in the help of an option becomes the names of all scorers."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

from typer.core import TyperCommand, TyperGroup

from vispco.cli.help_page import command_help, group_help
from vispco.core.declared_names import declared_names

KINDS = ("scorers", "kernels", "costs", "searches", "metrics", "benchmarks", "methods")
_WORD = re.compile(r"\{(" + "|".join(KINDS) + r")\}")


def names(kind: str) -> list[str]:
    """The names that are registered, those of other packages included."""
    if kind == "searches":  # only they know how a number or a method is added to their names
        return list(import_module("vispco.compare.searches").search_names())
    return declared_names(kind)


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
