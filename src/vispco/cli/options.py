"""Options of commands from dataclasses, and option types that commands share."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, get_type_hints

import typer
from typer.models import ArgumentInfo

from vispco.cli.names import complete_scorers, complete_tasks

COMPLETIONS = {"scorer": complete_scorers, "tasks": complete_tasks}

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Overwrite = Annotated[
    bool,
    typer.Option("--overwrite", help="Replace an earlier run in the folder: the files that it wrote, and no others."),
]
Seed = Annotated[int, typer.Option(min=0, help="Of everything that is drawn.")]
BatchSize = Annotated[int, typer.Option(min=1)]
Rounds = Annotated[int, typer.Option(min=1, help="Timed rounds, after one that warms up.")]
Host = Annotated[str, typer.Option(help="The address to listen on; 0.0.0.0 is every network of this machine.")]
Split = Annotated[str, typer.Option(help="Of synthetic tasks: test, calibration or train.")]


def spread(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose parameters may be dataclasses; the command line sees their fields, each written in one place.

    Fields are annotated as options of a command are: `Annotated[str, typer.Option(...)]`. In the help, the options of a
    dataclass with a `PANEL` stand under that heading; `OPTION_NAMES` gives fields other names. A dataclass is made, and
    its method `check` called if it has one, before the command runs.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, type] = {}
    arguments: list[Parameter] = []
    options: list[Parameter] = []
    last: list[Parameter] = []  # how an argument is read comes after what the command does with it
    for parameter in signature(command).parameters.values():
        kind = hints[parameter.name]
        if is_dataclass(kind) and isinstance(kind, type):
            groups[parameter.name] = kind
            found = _parameters(kind)
        else:
            found = [parameter.replace(annotation=_annotated(kind, parameter.name))]
        notes = {each.name: getattr(each.annotation, "__metadata__", ()) for each in found}
        own = [each for each in found if any(isinstance(note, ArgumentInfo) for note in notes[each.name])]
        arguments += own
        (last if own else options).extend(each for each in found if each not in own)

    @wraps(command)
    def run(**given: Any) -> None:
        for name, kind in groups.items():
            renamed = getattr(kind, "OPTION_NAMES", {})
            given[name] = kind(**{each.name: given.pop(renamed.get(each.name, each.name)) for each in fields(kind)})
            if hasattr(kind, "check"):
                given[name].check()
        command(**given)

    flat = [*arguments, *(each.replace(kind=Parameter.KEYWORD_ONLY) for each in (*options, *last))]
    run.__signature__ = Signature(flat)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in flat}
    return run


def _annotated(hint: Any, name: str, panel: str | None = None) -> Any:
    """The annotation of an option with its panel and completion; what several options share stays as it is."""
    notes = [copy(each) for each in getattr(hint, "__metadata__", ())]
    for option in notes:
        if not isinstance(option, ArgumentInfo):
            option.rich_help_panel = panel or option.rich_help_panel
            option.autocompletion = COMPLETIONS.get(name, option.autocompletion)
    return Annotated[hint.__origin__, *notes] if notes else hint


def _parameters(kind: type) -> list[Parameter]:
    hints, panel = get_type_hints(kind, include_extras=True), getattr(kind, "PANEL", None)
    renamed = getattr(kind, "OPTION_NAMES", {})
    found = []
    for each in fields(kind):
        default = Parameter.empty if each.default is MISSING else each.default
        hint = _annotated(hints[each.name], each.name, panel)
        name = renamed.get(each.name, each.name)
        found.append(Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=hint))
    return found
