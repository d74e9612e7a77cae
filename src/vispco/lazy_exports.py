"""Packages whose names are imported on first use, and packages that can be called.

`import vispco` must cost nothing, so that a command line answers `--help` at once. A package therefore says where its
names live, and `lazy_exports` gives it the `__getattr__` and `__dir__` that look them up.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any


def lazy_exports(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package, as PEP 562 asks for them.

    package: its `__name__`.
    homes: the module in which each exported name is defined; for a subpackage that is exported itself, its own name.
    """

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = import_module(homes[name])
        return home if home.__name__ == f"{package}.{name}" else getattr(home, name)

    def names() -> list[str]:
        return sorted({*homes, *vars(sys.modules[package])})

    return find, names


class CallablePackage(ModuleType):
    """A package that can be called like the function that it is named after.

    `vispco.search` is a function for those who use it and a package for those who look inside. Python sets the attribute
    `search` of `vispco` to the package as soon as anything in it is imported, so a function of that name would be
    replaced at a time that nobody can predict. The package itself is callable instead, and both uses always work.
    """

    _entry: str

    def __call__(self, *args: Any, **options: Any) -> Any:
        return getattr(self, self._entry)(*args, **options)

    @property
    def __signature__(self) -> inspect.Signature:
        """The function's, for `help` and `inspect.signature`."""
        return inspect.signature(getattr(self, self._entry))


def make_callable(package: str, entry: str) -> None:
    """Let a call of `package` call the function that it exports as `entry`."""
    module = sys.modules[package]
    module.__class__ = CallablePackage
    vars(module)["_entry"] = entry
