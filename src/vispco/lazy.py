"""A sequence whose items are made when they are asked for."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TypeVar, overload

Item_co = TypeVar("Item_co", covariant=True)


class Lazy(Sequence[Item_co]):
    """Says how many there are and makes the one at a place; slices and places from the end come with it."""

    @abstractmethod
    def make(self, place: int) -> Item_co:
        """The item at a place from 0 to len - 1."""

    @overload
    def __getitem__(self, index: int) -> Item_co: ...
    @overload
    def __getitem__(self, index: slice) -> list[Item_co]: ...
    def __getitem__(self, index: int | slice) -> Item_co | list[Item_co]:
        if isinstance(index, slice):
            return [self.make(place) for place in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(f"Item {index} of {len(self)}.")
        return self.make(index % len(self))
