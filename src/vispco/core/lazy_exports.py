"""Packages whose names are imported on first use.

`import vispco` must cost nothing, so that a command line answers `--help` at once. A package therefore says where its
names live, and `lazy_exports` gives it the `__getattr__` and `__dir__` that look them up.
"""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_exports(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package, as PEP 562 asks for them.

    package: its `__name__`.
    homes: the module in which each exported name is defined; a module of that name is exported itself.
    """

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = import_module(homes[name])
        return home if homes[name].endswith(f".{name}") else getattr(home, name)

    def names() -> list[str]:
        return sorted({*homes, *vars(sys.modules[package])})

    return find, names
