"""One question about one picture, and what a task is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from PIL.Image import Image

    from vispco.data.scene import Scene

Question = tuple[str, str]  # question, answer


@dataclass(frozen=True, slots=True)
class Sample:
    """A picture, a question in words and its short answer. `id` names it for good: split/task/seed/index."""

    id: str
    task: str
    image: Image = field(repr=False, compare=False)
    question: str
    answer: str
    meta: dict[str, Any] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class Task:
    """A kind of question.

    `compose(rng, difficulty)` lays out a scene that the task can ask about, `difficulty` in [0, 1] being how much
    stands in it; `ask(scene, rng)` gives the questions that any scene allows, the one it was composed for first.
    """

    name: str
    group: str  # seeing | reasoning | reading
    metric: str  # exact | relaxed
    compose: Callable[[Random, float], Scene]
    ask: Callable[[Scene, Random], list[Question]]
