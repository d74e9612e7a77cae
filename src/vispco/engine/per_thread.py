"""Attributes that a model writes on itself between passes of a generation, kept per thread while a pruner is attached.

Some classes write there where the positions of the next tokens begin (`rope_deltas`). Two threads that generate on one
model would then read each other's. While an engine is attached, each thread reads what it has written itself.
"""

import threading
from typing import Any
from weakref import WeakKeyDictionary

from torch import nn

_LOCK = threading.Lock()


class _ThreadAttribute:
    """A data descriptor of a class. Modules without an engine behave as if it were not there."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.stores: WeakKeyDictionary[nn.Module, threading.local] = (
            WeakKeyDictionary()
        )  # of the modules with an engine

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        own = self.stores.get(instance)
        if own is not None and hasattr(own, "value"):
            return own.value
        try:
            return instance.__dict__[self.name]  # as the last thread has left it: a generation may go on in another
        except KeyError:
            raise AttributeError(f"{type(instance).__name__!r} object has no attribute {self.name!r}") from None

    def __set__(self, instance: Any, value: Any) -> None:
        own = self.stores.get(instance)
        if own is not None:
            own.value = value
        instance.__dict__[self.name] = value


def install(module: nn.Module, names: tuple[str, ...]) -> list[str]:
    """Keep those of the attributes that a module has by thread; gives their names."""
    found = [name for name in names if name in module.__dict__]
    with _LOCK:
        for name in found:
            if name not in vars(type(module)):
                setattr(type(module), name, _ThreadAttribute(name))
            vars(type(module))[name].stores[module] = threading.local()
    return found


def remove(module: nn.Module, names: list[str]) -> None:
    """The attributes of a module as plain ones again, with what was written last."""
    with _LOCK:
        for name in names:
            attribute = vars(type(module))[name]
            attribute.stores.pop(module, None)
            if not attribute.stores:
                delattr(type(module), name)
