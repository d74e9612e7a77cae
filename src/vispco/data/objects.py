"""Scenes of scattered objects, shared by the tasks that see and reason."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from vispco.data.scene import Board, picture_size

if TYPE_CHECKING:
    from random import Random

    from vispco.data.scene import Mark, Scene


def board(rng: Random, difficulty: float) -> Board:
    return Board(rng, picture_size(rng, difficulty))


def how_many(rng: Random, difficulty: float, least: int, most: int) -> int:
    """A number of things: `least` at difficulty 0, up to `most` at 1."""
    return rng.randint(least, max(least, round(least + (most - least) * difficulty)))


def by_name(scene: Scene) -> dict[tuple[str, str], list[Mark]]:
    """Objects by (color, shape)."""
    names: dict[tuple[str, str], list[Mark]] = {}
    for mark in scene.objects:
        names.setdefault((mark.color, mark.shape), []).append(mark)
    return names


def count_of(scene: Scene, attribute: str) -> Counter[str]:
    return Counter(getattr(mark, attribute) for mark in scene.objects)
