"""Names of everything that is registered, and help texts that list them: `{scorers}` becomes the names of all scorers."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

from typer.core import TyperCommand, TyperGroup

from vispco.cli.help_page import command_help, group_help

REGISTRIES = {  # by kind: the module and its attribute that hold the names
    "scorers": "vispco.scorers:SCORERS",
    "kernels": "vispco.kernels:KERNELS",
    "costs": "vispco.cost:COSTS",
    "metrics": "vispco.metrics:METRICS",
    "benchmarks": "vispco.metrics:BENCHMARKS",
    "methods": "vispco.pruner.presets:PRESETS",
    "tasks": "vispco.data.dataset:TASKS",
    "several-tasks": "vispco.data.dataset:SEVERAL",
    "protocols": "vispco.metrics.protocols:PROTOCOLS",
    "modes": "vispco.search.spec:SOLVERS",
    "strategies": "vispco.sweep.spec:STRATEGIES",
    "engines": "vispco.sweep.spec:ENGINES",
    "splits": "vispco.data.dataset:SPLITS",
    "dtypes": "vispco.models.model_spec:DTYPES",
    "allocations": "vispco.scorers.allocation:ALLOCATIONS",
    "models": "vispco.models.shipped:NAMES",
    "spaces": "vispco.sweep.spaces:SPACES",
}
_WORD = re.compile(r"\{(" + "|".join((*REGISTRIES, "searches")) + r")\}")


def names(kind: str) -> list[str]:
    """The names that are registered, those of other packages included."""
    if kind == "searches":  # some take a number or a method behind their name
        return list(import_module("vispco.compare.searches").search_names())
    module, _, attribute = REGISTRIES[kind].partition(":")
    return list(getattr(import_module(module), attribute))


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
