"""Typer commands from functions: parameters that are dataclasses, and options that every command has, such as `--config`."""

from __future__ import annotations

import inspect
import json as jsons
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer
from typer.models import ArgumentInfo

from vispco.cli import console
from vispco.cli.help_page import LAST
from vispco.cli.names import Command, complete_scorers, complete_tasks, refuse_unknown_names, register_plugins
from vispco.core.errors import InvalidInputError, did_you_mean
from vispco.core.runs.option_files import option_text, read_options
from vispco.version import __version__


class StoppedByUserError(Exception):
    """Ctrl-C as an exception that typer does not catch."""


_EFFECTIVE: dict[str, Any] = {}
_COMPLETIONS = {"scorer": complete_scorers, "tasks": complete_tasks}
_NOT_IN_FILES = ("config", "help", "plugin")  # a plugin runs code: a person names it, never a file
_NAMES_METHODS = {"scorer", "scorers", "method", "methods", "pruner"}
"""Commands with one of these parameters take `--plugin`."""


def configure(app: typer.Typer, prefix: str = "") -> None:
    """Make commands of typer of the functions of an app, and of the apps inside it."""
    for command in app.registered_commands:
        if command.callback is not None:
            own = command.name or command.callback.__name__
            command.callback, command.cls = _as_command(command.callback, f"{prefix}{own}"), Command
    for group in app.registered_groups:
        if group.typer_instance is not None:
            configure(group.typer_instance, f"{prefix}{group.name} ")


def _as_command(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """A function as typer takes it, with the options that every command has; its own are remembered for `facts`.

    A parameter may be a dataclass: the command line sees its fields, annotated as options are. In the help, they stand
    under the heading `PANEL` of the dataclass if it has one; `OPTION_NAMES` gives fields other names. The dataclass is
    made, and its method `check` called if it has one, before the function runs.
    """
    hints = get_type_hints(function, include_extras=True)
    groups: dict[str, type] = {}
    arguments: list[inspect.Parameter] = []
    options: list[inspect.Parameter] = []
    last: list[inspect.Parameter] = []  # how an argument is read comes after what the command does with it
    for parameter in inspect.signature(function).parameters.values():
        kind = hints[parameter.name]
        if is_dataclass(kind) and isinstance(kind, type):
            groups[parameter.name] = kind
            found = _field_parameters(kind)
        else:
            found = [parameter.replace(annotation=_annotated(kind, parameter.name))]
        notes = {each.name: getattr(each.annotation, "__metadata__", ()) for each in found}
        own = [each for each in found if any(isinstance(note, ArgumentInfo) for note in notes[each.name])]
        arguments += own
        (last if own else options).extend(each for each in found if each not in own)
    options += last
    lists = {each.name for each in (*arguments, *options) if _is_list(each.annotation)}

    def read(context: typer.Context, path: Path | None) -> Path | None:
        if path is not None and not context.resilient_parsing:
            context.default_map = _chosen(read_options(path, name), context, path, lists, name)
        return path

    @wraps(function)
    def run(
        *,
        config: Path | None = None,  # noqa: ARG001 - `read` has looked at it
        plugin: Sequence[Path] | None = None,
        quiet: bool,
        verbose: bool,
        log_file: Path | None,
        **given: Any,
    ) -> Any:
        _EFFECTIVE.clear()
        _EFFECTIVE.update(jsons.loads(jsons.dumps(given, default=str)))
        console.begin(quiet=quiet, verbose=verbose, log_file=log_file)
        console.SAID.debug("%s", f"vispco {__version__} {name}: {jsons.dumps(_EFFECTIVE)}")
        began = time.monotonic()
        try:
            if plugin:
                register_plugins(plugin)
            refuse_unknown_names(given)
            for group, kind in groups.items():
                renamed = getattr(kind, "OPTION_NAMES", {})
                made = kind(**{each.name: given.pop(renamed.get(each.name, each.name)) for each in fields(kind)})
                if hasattr(made, "check"):
                    made.check()
                given[group] = made
            return function(**given)
        except KeyboardInterrupt as error:
            raise StoppedByUserError from error
        finally:
            console.SAID.debug("%s", f"{name} took {time.monotonic() - began:.1f} s")

    if _NAMES_METHODS & {each.name for each in (*arguments, *options)}:
        text = "Run this Python file first: it registers a scorer of your own; may be repeated."
        options.append(_general_option("plugin", list[Path] | None, "--plugin", metavar="FILE", help=text))
    text = "Options from a YAML or JSON file (a run's config.json will do); the command line overrides them."
    options += [
        _general_option("config", Path | None, "--config", is_eager=True, callback=read, help=text, metavar="FILE"),
        _general_option("quiet", bool, "--quiet", "-q", help="Only errors and warnings on stderr."),
        _general_option("verbose", bool, "--verbose", help="Also what is looked up and how long it takes."),
        _general_option(
            "log_file", Path | None, "--log-file", metavar="FILE", help="Add what is said, with the time, to this file."
        ),
    ]
    flat = [*arguments, *(each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in options)]
    run.__signature__ = inspect.Signature(flat)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in flat}
    return run


def _field_parameters(kind: type) -> list[inspect.Parameter]:
    """The fields of a dataclass as parameters of a command."""
    hints, renamed = get_type_hints(kind, include_extras=True), getattr(kind, "OPTION_NAMES", {})
    return [
        inspect.Parameter(
            renamed.get(each.name, each.name),
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=inspect.Parameter.empty if each.default is MISSING else each.default,
            annotation=_annotated(hints[each.name], each.name, getattr(kind, "PANEL", None)),
        )
        for each in fields(kind)
    ]


def _annotated(hint: Any, name: str, panel: str | None = None) -> Any:
    """The annotation of an option with its panel and completion; what several options share stays as it is."""
    notes = [copy(each) for each in getattr(hint, "__metadata__", ())]
    for option in notes:
        if not isinstance(option, ArgumentInfo):
            option.rich_help_panel = panel or option.rich_help_panel
            option.autocompletion = _COMPLETIONS.get(name, option.autocompletion)
    return Annotated[hint.__origin__, *notes] if notes else hint


def _general_option(name: str, kind: Any, *words: str, **about: Any) -> inspect.Parameter:
    """An option of every command, under the last heading of its help."""
    option = typer.Option(*words, rich_help_panel=LAST, **about)
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=False if kind is bool else None,
        annotation=Annotated[kind, option],
    )


def facts(device: Any = None) -> dict[str, Any]:
    """What a run keeps of how it was made: command, effective options, seed, versions, machine."""
    from vispco.core.runs.provenance import machine, versions  # noqa: PLC0415

    seed = {"seed": _EFFECTIVE["seed"]} if "seed" in _EFFECTIVE else {}
    return {
        "command": ["vispco", *sys.argv[1:]],
        "options": dict(_EFFECTIVE),
        **seed,
        "versions": versions(),
        "machine": machine(device),
    }


def _chosen(
    options: Mapping[Any, Any], context: typer.Context, path: Path, lists: set[str], command: str
) -> dict[str, Any]:
    """What a file says, by parameter; a name that the command does not take is refused, with those that it takes."""
    names = {
        opt.lstrip("-").replace("-", "_"): parameter.name
        for parameter in context.command.params
        for opt in (parameter.name or "", *parameter.opts)
        if parameter.name not in (None, *_NOT_IN_FILES)
    }
    unknown = [str(key) for key in options if str(key).replace("-", "_") not in names]
    if unknown:
        shown = {parameter.opts[0].lstrip("-") for parameter in context.command.params} - {*_NOT_IN_FILES}
        raise InvalidInputError(
            f"The config {path} has unknown options: {', '.join(unknown)}. "
            f"`vispco {command}` takes {', '.join(sorted(shown))}.{did_you_mean(unknown[0], shown)}"
        )
    found = {}
    for key, value in options.items():
        name = names[str(key).replace("-", "_")] or ""
        if value is not None:
            found[name] = option_text(key, value, path, several=name in lists)
    return found


def _is_list(annotation: Any) -> bool:
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    return any(get_origin(each) is list for each in (annotation, *get_args(annotation)))
