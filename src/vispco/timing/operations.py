"""Counts of dispatched torch operations and of waits for the device, which do not depend on a machine's load.

An operation is one that torch dispatches below autograd, views among them: on a GPU most of them are a launch. A wait is a
call that brings a value of the model's device to the host: `.item()`, `.tolist()`, `.cpu()`, `bool()`, `int()`,
`float()`, or indexing by a boolean mask.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

WAITS = frozenset(
    ("item", "tolist", "cpu", "__bool__", "__int__", "__float__", "__index__", "nonzero", "masked_select")
)
INDEXING = frozenset(("__getitem__", "__setitem__"))


@dataclass
class Counts:
    """operations, waits: how often each was called, by name."""

    operations: Counter[str] = field(default_factory=Counter)
    waits: Counter[str] = field(default_factory=Counter)

    @property
    def number(self) -> int:
        return self.operations.total()

    @property
    def syncs(self) -> int:
        return self.waits.total()

    def beyond(self, other: Counts) -> dict[str, int]:
        """By name, the operations that are more than in another count; negative where they are fewer."""
        names = {*self.operations, *other.operations}
        return {n: d for n in sorted(names) if (d := self.operations[n] - other.operations[n])}


class _Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch is untyped here
    def __init__(self, counts: Counts) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.counts = counts

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.counts.operations[str(func)] += 1
        return func(*args, **(kwargs or {}))


class _Waits(TorchFunctionMode):
    def __init__(self, counts: Counts) -> None:
        super().__init__()
        self.counts = counts

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name in WAITS or (name in INDEXING and _by_mask(args[1])) or (name == "to" and "cpu" in args[1:]):
            self.counts.waits[name] += 1
        return func(*args, **(kwargs or {}))


def _by_mask(index: Any) -> bool:
    parts = index if isinstance(index, tuple) else (index,)
    return any(isinstance(part, Tensor) and part.dtype == torch.bool for part in parts)


@contextmanager
def counting() -> Iterator[Counts]:
    """Counts operations and waits inside the block."""
    found = Counts()
    with _Waits(found), _Operations(found):
        yield found


@torch.no_grad()
def count(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Counts:
    """Run a call and count its operations and waits."""
    with counting() as found:
        call(*args, **kwargs)
    return found
