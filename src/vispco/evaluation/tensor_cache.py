"""Tensors by name, within a bound of memory; the least recently used ones are moved to disk and read back when needed."""

from __future__ import annotations

import hashlib
import tempfile
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING

from safetensors.torch import load_file, save_file

from vispco.core.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

GIB = 1 << 30


class TensorCache:
    """A bounded store of groups of tensors on the host.

    memory: bytes that may be held; beyond them, the least recently used groups are written to `folder`.
    folder: where to; default: a temporary folder that is deleted with the cache.
    """

    def __init__(self, memory: int = 2 * GIB, folder: str | Path | None = None) -> None:
        if memory < 0:
            raise InvalidInputError(f"memory={memory} was given. It is a number of bytes, 0 or more.")
        self.memory, self.held = memory, 0
        self._parent = None if folder is None else Path(folder)
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._entries: OrderedDict[str, dict[str, Tensor]] = OrderedDict()
        self._spilled: dict[str, Path] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._entries or key in self._spilled

    def __len__(self) -> int:
        return len(self._entries.keys() | self._spilled.keys())

    @property
    def on_disk(self) -> int:
        """How many groups have been written to disk."""
        return len(self._spilled)

    def put(self, key: str, tensors: Mapping[str, Tensor]) -> None:
        self._drop(key)
        self._spilled.pop(key, None)
        self._hold(key, {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()})

    def get(self, key: str) -> dict[str, Tensor]:
        """The group under a key, `KeyError` if there is none."""
        if key in self._entries:
            self._entries.move_to_end(key)
            return self._entries[key]
        found = load_file(self._spilled[key])
        self._hold(key, found)
        return found

    def _hold(self, key: str, tensors: dict[str, Tensor]) -> None:
        self._entries[key] = tensors
        self.held += _size_of(tensors)
        while self.held > self.memory and self._entries:
            oldest = next(iter(self._entries))
            if oldest not in self._spilled:
                self._spill(oldest)
            self._drop(oldest)

    def _drop(self, key: str) -> None:
        tensors = self._entries.pop(key, None)
        if tensors is not None:
            self.held -= _size_of(tensors)

    def _spill(self, key: str) -> None:
        if self._folder is None:
            if self._parent is not None:
                self._parent.mkdir(parents=True, exist_ok=True)
            self._folder = tempfile.TemporaryDirectory(prefix="vispco-", dir=self._parent)
        path = Path(self._folder.name) / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.safetensors"
        save_file({name: tensor.clone() for name, tensor in self._entries[key].items()}, path)
        self._spilled[key] = path


def _size_of(tensors: Mapping[str, Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
