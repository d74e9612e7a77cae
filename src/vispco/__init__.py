"""vispco: which visual tokens a vision-language model can do without, at which layer, for a given budget.

Names are imported when they are first used, so that `import vispco` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from vispco.version import __version__

if TYPE_CHECKING:
    from vispco.loading import load
    from vispco.pruner import Pruner
    from vispco.schedule import Schedule

_HOMES = {"Pruner": "vispco.pruner", "Schedule": "vispco.schedule", "load": "vispco.loading"}

__all__ = ["Pruner", "Schedule", "__version__", "load"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'vispco' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
