"""Plugins: Python files of a user that register a scorer, or anything else that has a registry, without packaging.

A file runs only where a user names it (`--plugin FILE`): with all rights of the user, as any script.
"""

import hashlib
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from vispco.core.errors import InvalidInputError, VispcoError

T = TypeVar("T")
_LOADED: dict[str, str] = {}  # by resolved path: the name of the module


def load_plugin(path: str | os.PathLike[str]) -> str:
    """Run a file once in this process; return the name of its module. A file that cannot be run is refused in a sentence."""
    file = Path(path)
    if file.suffix != ".py" or not file.is_file():
        raise InvalidInputError(
            f"The plugin {file} is no Python file. Give a .py file that registers a scorer (see docs/adding-a-scorer.md)."
        )
    place = str(file.resolve())
    if place in _LOADED:
        return _LOADED[place]
    name = f"vispco_plugin_{file.stem}_{hashlib.sha256(place.encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, place)
    if spec is None or spec.loader is None:
        raise InvalidInputError(f"The plugin {file} cannot be imported. Give a .py file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickle look their module up
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        if isinstance(error, VispcoError):
            raise InvalidInputError(f"The plugin {file} was refused: {error}") from error
        raise InvalidInputError(
            f"The plugin {file} stopped with {type(error).__name__}: {' '.join(str(error).split())}{_line(error, place)}. "
            "Correct the file; `python FILE` shows the same."
        ) from error
    _LOADED[place] = name
    return name


def loaded_plugins() -> tuple[str, ...]:
    """The files that were loaded in this process, for processes that it starts."""
    return tuple(_LOADED)


def with_plugins(factory: Callable[[], T]) -> Callable[[], T]:
    """The factory as another process can call it: the plugins of this one are loaded there first."""
    return partial(_call_with_plugins, loaded_plugins(), factory) if _LOADED else factory


def _call_with_plugins(plugins: Sequence[str], factory: Callable[[], T]) -> T:
    for path in plugins:
        load_plugin(path)
    return factory()


def _line(error: BaseException, place: str) -> str:
    """Where in the file it was, if it was there."""
    if isinstance(error, SyntaxError):
        return ""  # its message has the line
    trace, found = error.__traceback__, None
    while trace is not None:
        found = trace.tb_lineno if trace.tb_frame.f_code.co_filename == place else found
        trace = trace.tb_next
    return "" if found is None else f" (line {found})"
