"""What follows from the maps of a `TokenLayout` alone, kept for all layouts with the same maps: prompts of one size are frequent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np

Array: TypeAlias = np.ndarray[Any, Any]
T = TypeVar("T")
_REMEMBERED, SMALL = 64, 1 << 13  # the number of cached layouts, and the largest one in tokens


class Shared(Generic[T]):
    """A property that is computed once for all layouts with the same maps."""

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self.compute, self.name, self.__doc__ = compute, compute.__name__, compute.__doc__

    def __get__(self, layout: Any, _: object = None) -> T:
        known: dict[str, T] = layout.known
        if self.name not in known:
            known[self.name] = self.compute(layout)
        found = layout.__dict__[self.name] = known[self.name]  # the next time Python finds it there
        return found


_KNOWN: dict[tuple[Any, ...], dict[str, Any]] = {}


def known_values(visible: Array, there: Array, query: Array, read: Array | None, device: Any) -> dict[str, Any]:
    """The values of all layouts with these maps, by name."""
    key = (visible.tobytes(), there.tobytes(), query.tobytes(), None if read is None else read.tobytes(), device)
    found = _KNOWN.get(key)
    if found is None:
        if len(_KNOWN) >= _REMEMBERED:
            _KNOWN.clear()
        found = _KNOWN[key] = {}
    return found


def forget_layouts() -> None:
    """Clear the cache of values that were computed for layouts."""
    _KNOWN.clear()
