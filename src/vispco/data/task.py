"""What a synthetic task is, and what the tasks share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from typing import TYPE_CHECKING, ClassVar

from vispco.data.scene import Board, picture_size

if TYPE_CHECKING:
    from random import Random

    from vispco.data.sample import Question
    from vispco.data.scene import Mark, Scene


class Task(ABC):
    """A kind of question about a drawn picture."""

    name: ClassVar[str]
    group: ClassVar[str]  # seeing | reasoning | reading
    metric: ClassVar[str]  # exact | relaxed

    @abstractmethod
    def compose(self, rng: Random, difficulty: float) -> Scene:
        """Lay out a scene that this task can ask about; `difficulty` in [0, 1] is how full it is."""

    @abstractmethod
    def ask(self, scene: Scene, rng: Random) -> list[Question]:
        """All questions of this task that a scene allows, the one that it was composed for first."""


def board(rng: Random, difficulty: float) -> Board:
    """An empty board of a random size."""
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
    """How many objects have each value of an attribute ("shape" or "color")."""
    return Counter(getattr(mark, attribute) for mark in scene.objects)
