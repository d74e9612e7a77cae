"""Unpruned runs that are kept for later candidates, within a bound of memory."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from vispco.core.errors import InvalidInputError
from vispco.engine.replay import Prefix

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vispco.scorers import Chain

Key = tuple[str, int]


class PrefixCache:
    """Prefixes by batch. Those beyond `memory` bytes are held only until they are released."""

    def __init__(self, memory: int = 0) -> None:
        if memory < 0:
            raise InvalidInputError(f"share={memory} was given. It is a number of bytes, 0 for none.")
        self.memory, self.held, self.full = memory, 0, memory == 0
        self._kept: dict[Key, Prefix] = {}
        self._passing: dict[Key, Prefix] = {}

    def wanted(self, key: Key, *, hold: bool) -> bool:
        """Is this prefix missing, and worth recording: will others use it now (`hold`), or is there room to keep it?"""
        return self.get(key) is None and (hold or not self.full)

    def get(self, key: Key) -> Prefix | None:
        return self._kept.get(key) or self._passing.get(key)

    @contextmanager
    def recording(self, key: Key, model: Any, chain: Chain) -> Iterator[None]:
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

    def release(self, key: Key) -> None:
        """No candidate needs this batch any more."""
        self._passing.pop(key, None)
