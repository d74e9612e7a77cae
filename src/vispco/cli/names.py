"""Names that are registered: in help texts (`{scorers}`), after TAB, and refused with a suggestion if they are misspelt.

A name is refused here before a model is loaded. What needs more knowledge (options of a scorer, a setting of a method, a
file) is left to the command.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any, get_args

from typer.core import TyperCommand, TyperGroup

from vispco.cli.help_page import command_help, group_help
from vispco.core.errors import InvalidInputError, UnknownNameError

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
    "modes": "vispco.search.search_spec:SOLVERS",
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


def complete_scorers(incomplete: str) -> list[str]:
    """Scorers; in a chain, the one after the last plus sign."""
    before, plus, last = incomplete.rpartition("+")
    return [f"{before}{plus}{name}" for name in names("scorers") if name.startswith(last)]


def complete_tasks(incomplete: str) -> list[str]:
    """Synthetic tasks and benchmarks; in a list, the one after the last comma."""
    before, comma, last = incomplete.rpartition(",")
    known = [*(["all"] if not comma else []), *names("tasks"), *(f"{name}=" for name in names("benchmarks"))]
    return [f"{before}{comma}{name}" for name in known if name.startswith(last)]


def refuse_unknown_names(command: str, given: Mapping[str, Any]) -> None:
    """Raise the sentence for the first option whose value holds a name that nobody knows.

    command: such as "compare searches". given: its options by name.
    """
    for option, value in given.items():
        kind, read = OPTIONS.get(f"{command}:{option}", OPTIONS.get(option, ("", _whole)))
        if not kind or (option == "tasks" and given.get("data_root") is not None):
            continue
        for text in value if isinstance(value, list | tuple) else (value,):
            for name in read(text) if isinstance(text, str) else ():
                curve = name.removeprefix("kernel:") if kind == "spaces" else name
                _refuse(kind if curve == name else "kernels", curve)


def _refuse(kind: str, name: str) -> None:
    known, others = _known(kind)
    if name in known or name in others:
        return
    if kind == "learned" and name in {*names("scorers"), *names("methods")}:
        raise InvalidInputError(f"The method {name!r} has nothing to train. Methods that have: {', '.join(known)}.")
    words = {"strategies": "strategy", "searches": "search", "learned": "method"}
    raise UnknownNameError(words.get(kind, kind.removesuffix("s")), name, known)


def _known(kind: str) -> tuple[list[str], Iterable[str]]:
    """The names of a kind, as a sentence lists them, and what else is taken."""
    if kind == "solver":
        solvers = import_module("vispco.search.search_spec").SOLVERS.values()
        return list(dict.fromkeys(solver for each in solvers for solver in each)), ()
    if kind == "measure":
        return list(get_args(import_module("vispco.compare.searches.calibration").Measure)), ()
    if kind == "learned":
        scorers = import_module("vispco.scorers")
        return [n for n in scorers.SCORERS if issubclass(scorers.SCORERS.get(n), scorers.LearnedScorer)], ()
    if kind == "searches":
        return list(import_module("vispco.compare.searches.search_registry").SEARCHES), ("all", "none")
    known = names(kind)
    if kind == "methods":  # or a chain of scorers
        return [*known, *(each for each in names("scorers") if each not in known)], ()
    if kind == "tasks":
        dataset = import_module("vispco.data.dataset")
        groups = {task.group for task in (*dataset.TASKS.values(), *dataset.SEVERAL.values())}
        return [*known, *names("several-tasks")], ("all", "several", *groups, *names("benchmarks"))
    return [*known, *(["kernel:NAME"] if kind == "spaces" else [])], ()


def _whole(text: str) -> list[str]:
    return [text]


def _scorers(text: str) -> list[str]:
    """The scorers of chains without options."""
    links = re.findall(r"(?:^|[+,])\s*([\w-]+)(?:@\d+)?\s*(?=[+,]|$)", text)
    return [] if "(" in text else links


def _methods(text: str) -> list[str]:
    """Published methods, with or without a setting or a budget, or single scorers."""
    found = [re.split(r"[:@]", part.strip())[0] for part in text.split(",") if part]
    return [name for name in found if re.fullmatch(r"[\w.-]+", name)]


def _searches(text: str) -> list[str]:
    """Searches without their number (random-40) or method (scaled:pyramiddrop)."""
    known = import_module("vispco.compare.searches.search_registry").SEARCHES
    parts = [part.strip() for part in text.split(",") if part.strip()]
    forms = [(part, part.partition(":")[0], re.sub(r"-\d+$", "", part)) for part in parts]
    return [next((each for each in form if each in known), form[0]) for form in forms]


def _tasks(text: str) -> list[str]:
    return [] if "=" in text else [part.strip() for part in text.split(",") if part.strip()]


# By option; COMMAND:OPTION where a command means something else by it: the kind of its names, and how a text holds them.
OPTIONS: dict[str, tuple[str, Callable[[str], list[str]]]] = {
    "scorer": ("scorers", _scorers),
    "scorers": ("scorers", _scorers),
    "method": ("methods", _methods),
    "methods": ("methods", _methods),
    "compare searches:methods": ("searches", _searches),
    "compare methods:search": ("searches", _searches),
    "train:method": ("learned", _whole),
    "kernel": ("kernels", _whole),
    "cost": ("costs", _whole),
    "mode": ("modes", _whole),
    "solver": ("solver", _whole),
    "measure": ("measure", _whole),
    "strategy": ("strategies", _whole),
    "space": ("spaces", _whole),
    "engine": ("engines", _whole),
    "split": ("splits", _whole),
    "protocol": ("protocols", _whole),
    "dtype": ("dtypes", _whole),
    "allocation": ("allocations", _whole),
    "tasks": ("tasks", _tasks),
    "zoo train:name": ("models", _whole),
}
