"""Caches with a bound on memory: tensors by name, and unpruned runs by batch."""

from __future__ import annotations

import hashlib
import tempfile
from collections import OrderedDict
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors.torch import load_file, save_file

from vispco.core.errors import InvalidInputError
from vispco.engine.replay import Prefix

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from torch import Tensor

    from vispco.scorers import Chain

GIB = 1 << 30
_Key = tuple[str, int]


class TensorCache:
    """Groups of tensors on the host.

    memory: bytes that may be held; beyond them, the least recently used groups are written to a temporary folder, which is deleted
        with the cache, and read back when needed.
    """

    def __init__(self, memory: int = 2 * GIB) -> None:
        if memory < 0:
            raise InvalidInputError(f"memory={memory} was given. It is a number of bytes, 0 or more.")
        self.memory, self.held = memory, 0
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
                if self._folder is None:
                    self._folder = tempfile.TemporaryDirectory(prefix="vispco-")
                path = Path(self._folder.name) / f"{hashlib.sha256(oldest.encode()).hexdigest()[:32]}.safetensors"
                save_file({name: tensor.clone() for name, tensor in self._entries[oldest].items()}, path)
                self._spilled[oldest] = path
            self._drop(oldest)

    def _drop(self, key: str) -> None:
        tensors = self._entries.pop(key, None)
        if tensors is not None:
            self.held -= _size_of(tensors)


def _size_of(tensors: Mapping[str, Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())


class PrefixCache:
    """Prefixes by batch. Those beyond `memory` bytes are held only until they are released."""

    def __init__(self, memory: int = 0) -> None:
        if memory < 0:
            raise InvalidInputError(f"share={memory} was given. It is a number of bytes, 0 for none.")
        self.memory, self.held, self.full = memory, 0, memory == 0
        self._kept: dict[_Key, Prefix] = {}
        self._passing: dict[_Key, Prefix] = {}

    def wanted(self, key: _Key, *, hold: bool) -> bool:
        """Is this prefix missing, and worth recording: will others use it now (`hold`), or is there room to keep it?"""
        return self.get(key) is None and (hold or not self.full)

    def get(self, key: _Key) -> Prefix | None:
        return self._kept.get(key) or self._passing.get(key)

    @contextmanager
    def recording(self, key: _Key, model: Any, chain: Chain) -> Iterator[None]:
        """Keep what an unpruned run inside the block computes."""
        prefix = Prefix(model, chain)
        with prefix.record():
            yield
        if self.held + prefix.size <= self.memory:
            self._kept[key] = prefix
            self.held += prefix.size
        else:
            self.full = True
            self._passing[key] = prefix

    def release(self, key: _Key) -> None:
        """No candidate needs this batch any more."""
        self._passing.pop(key, None)
