"""Names that are registered: in help texts (`{scorers}`), after TAB, and refused early with a suggestion if misspelt.

Commands look most names up before they load a model. `refuse_unknown_names` is for those that they look up later.
"""

import re
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

from typer.core import TyperCommand, TyperGroup

from vispco.cli.help_page import command_help, group_help
from vispco.core.errors import InvalidInputError, UnknownNameError
from vispco.core.plugins import load_plugin, loaded_plugins

REGISTRIES = {  # by kind: the module and its attribute that hold the names
    "scorers": "vispco.scorers:SCORERS",
    "kernels": "vispco.kernels:KERNELS",
    "costs": "vispco.cost:COSTS",
    "metrics": "vispco.metrics:METRICS",
    "benchmarks": "vispco.metrics:BENCHMARKS",
    "methods": "vispco.pruner.presets:PRESETS",
    "tasks": "vispco.data.dataset:TASKS",
    "protocols": "vispco.metrics.protocols:PROTOCOLS",
    "modes": "vispco.search.search_spec:SOLVERS",
    "models": "vispco.models.shipped:NAMES",
}
OTHER_KINDS = ("searches", "solvers", "measures")
_WORD = re.compile(r"\{(" + "|".join((*REGISTRIES, *OTHER_KINDS)) + r")\}")


def names(kind: str) -> list[str]:
    """The names that are registered, those of other packages included."""
    if kind == "searches":  # some take a number or a method behind their name
        return list(import_module("vispco.compare.searches").search_names())
    if kind == "solvers":
        modes = import_module("vispco.search.search_spec").SOLVERS
        return list(dict.fromkeys(solver for solvers in modes.values() for solver in solvers))
    if kind == "measures":
        return list(get_args(import_module("vispco.compare.searches.calibration").Measure))
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


def complete_scorers(incomplete: str) -> list[str]:
    """Scorers; in a chain, the one after the last plus sign."""
    before, plus, last = incomplete.rpartition("+")
    return [f"{before}{plus}{name}" for name in names("scorers") if name.startswith(last)]


def complete_tasks(incomplete: str) -> list[str]:
    """Synthetic tasks and benchmarks; in a list, the one after the last comma."""
    before, comma, last = incomplete.rpartition(",")
    known = [*(["all"] if not comma else []), *names("tasks"), *(f"{name}=" for name in names("benchmarks"))]
    return [f"{before}{comma}{name}" for name in known if name.startswith(last)]


def refuse_unknown_names(given: Mapping[str, Any]) -> None:
    """Refuse options whose names a command would look up only after it has loaded a model. given: options by name."""
    for option in ("kernel", "cost", "mode", "solver", "measure", "protocol"):
        value = given.get(option)
        for name in value if isinstance(value, list | tuple) else (value,):
            if isinstance(name, str) and name not in (known := names(f"{option}s")):
                raise UnknownNameError(option, name, known)


def register_plugins(paths: Sequence[Path]) -> None:
    """Run the files of `--plugin`. One that registers nothing is refused: a name of it would be unknown later."""
    kinds = [kind for kind, place in REGISTRIES.items() if place.rpartition(":")[2].isupper()]
    for path in paths:
        if str(path.resolve()) in loaded_plugins():
            continue
        before = {kind: set(names(kind)) for kind in kinds}
        load_plugin(path)
        if all(set(names(kind)) == known for kind, known in before.items()):
            raise InvalidInputError(
                f"The plugin {path} registers nothing. Put `@vispco.scorers.register` above the class of a scorer "
                "(see docs/adding-a-scorer.md)."
            )
