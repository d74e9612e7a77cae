"""`--config FILE` on every command: options from a YAML or JSON file, which the command line overrides."""

from __future__ import annotations

import inspect
import json as jsons
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer

from vispco.cli import console
from vispco.cli.help_page import LAST
from vispco.cli.names import Command, refuse_unknown_names, register_plugins
from vispco.core.errors import InvalidInputError, did_you_mean
from vispco.core.runs.option_files import option_text, read_options
from vispco.version import __version__


class StoppedByUserError(Exception):
    """Ctrl-C as an exception that typer does not catch."""


@dataclass(frozen=True, kw_only=True)
class _GeneralOptions:
    """How much every command says, and where."""

    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Only errors and warnings on stderr.", rich_help_panel=LAST)
    ] = False
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Also what is looked up and how long it takes.", rich_help_panel=LAST)
    ] = False
    log_file: Annotated[
        Path | None,
        typer.Option(
            "--log-file", metavar="FILE", help="Add what is said, with the time, to this file.", rich_help_panel=LAST
        ),
    ] = None


HELP = "Options from a YAML or JSON file (a run's config.json will do); the command line overrides them."
_EFFECTIVE: dict[str, Any] = {}
_NOT_IN_FILES = ("config", "help", "plugin")  # a plugin runs code: a person names it, never a file
NAMES_METHODS = {"scorer", "scorers", "method", "methods", "pruner"}
"""Commands with one of these parameters take `--plugin`."""
PLUGIN = inspect.Parameter(
    "plugin",
    inspect.Parameter.KEYWORD_ONLY,
    default=None,
    annotation=Annotated[
        list[Path] | None,
        typer.Option(
            "--plugin",
            metavar="FILE",
            help="Run this Python file first: it registers a scorer of your own; may be repeated.",
            rich_help_panel=LAST,
        ),
    ],
)


def _configured(command: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The same command with `--config`, which remembers the options that it runs with for `facts`."""
    signature = inspect.signature(command, eval_str=True)
    lists = {key for key, value in signature.parameters.items() if _is_list(value.annotation)}

    def read(context: typer.Context, path: Path | None) -> Path | None:
        if path is not None and not context.resilient_parsing:
            context.default_map = _chosen(read_options(path, name), context, path, lists, name)
        return path

    option = typer.Option("--config", is_eager=True, callback=read, help=HELP, metavar="FILE", rich_help_panel=LAST)
    added = inspect.Parameter(
        "config", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[Path | None, option]
    )
    plugin = [PLUGIN] if NAMES_METHODS & {*signature.parameters} else []
    hints = get_type_hints(_GeneralOptions, include_extras=True)
    general = [
        inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=each.default, annotation=hints[each.name])
        for each in fields(_GeneralOptions)
    ]

    @wraps(command)
    def run(**given: Any) -> Any:
        given.pop("config", None)
        plugins = given.pop("plugin", None) or ()
        asked = _GeneralOptions(**{each.name: given.pop(each.name) for each in fields(_GeneralOptions)})
        _EFFECTIVE.clear()
        _EFFECTIVE.update(jsons.loads(jsons.dumps(given, default=str)))
        console.begin(quiet=asked.quiet, verbose=asked.verbose, log_file=asked.log_file)
        console.SAID.debug("%s", f"vispco {__version__} {name}: {jsons.dumps(_EFFECTIVE)}")
        began = time.monotonic()
        try:
            if plugins:
                register_plugins(plugins)
            refuse_unknown_names(given)
            return command(**given)
        except KeyboardInterrupt as error:
            raise StoppedByUserError from error
        finally:
            console.SAID.debug("%s", f"{name} took {time.monotonic() - began:.1f} s")

    parameters = [*signature.parameters.values(), *plugin, added, *general]
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def configure(app: typer.Typer, prefix: str = "") -> None:
    """Give every command of an app, and of the apps inside it, its `--config` and help with registered names."""
    for command in app.registered_commands:
        if command.callback is not None:
            own = command.name or command.callback.__name__
            command.callback, command.cls = _configured(command.callback, f"{prefix}{own}"), Command
    for group in app.registered_groups:
        if group.typer_instance is not None:
            configure(group.typer_instance, f"{prefix}{group.name} ")


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
