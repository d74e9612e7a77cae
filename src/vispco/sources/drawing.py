"""A few of very many: a fair draw in one pass, with no more in memory than what is drawn."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

T = TypeVar("T")


def draw(items: Iterable[T], limit: int | None, seed: int = 0) -> list[T]:
    """`limit` of the items, each as likely as any other, in their order; all of them without a limit.

    The same items and seed give the same draw on every machine.
    """
    if limit is None:
        return list(items)
    rng = Random(seed)  # noqa: S311  reproducible, not secret
    kept: list[tuple[int, T]] = []
    for place, item in enumerate(items):
        if place < limit:
            kept.append((place, item))
        elif (room := rng.randrange(place + 1)) < limit:
            kept[room] = (place, item)
    return [item for _, item in sorted(kept, key=lambda entry: entry[0])]
