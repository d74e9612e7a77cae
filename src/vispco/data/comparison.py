"""Reasoning: among objects of one shape, the colour of the biggest or the smallest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vispco.data.objects import board, how_many
from vispco.data.sample import Question, Task
from vispco.data.vocabulary import COLORS, SHAPES

if TYPE_CHECKING:
    from random import Random

    from vispco.data.scene import Mark, Scene

CLEARLY = 1.3  # the extreme one is at least so many times larger or smaller than the next


def compose(rng: Random, difficulty: float) -> Scene:
    made = board(rng, difficulty)
    shape = rng.choice(SHAPES)
    biggest = rng.random() < 0.5
    rivals = how_many(rng, difficulty, 1, 3)
    colors = rng.sample(list(COLORS), rivals + 1)
    made.put_object(shape, colors[0], rng.uniform(0.2, 0.225) if biggest else rng.uniform(0.11, 0.12))
    for color in colors[1:]:
        made.put_object(shape, color, rng.uniform(0.115, 0.15) if biggest else rng.uniform(0.16, 0.22))
    for _ in range(how_many(rng, difficulty, 0, 4)):
        made.put_object(
            rng.choice([name for name in SHAPES if name != shape]), rng.choice(list(COLORS)), rng.uniform(0.11, 0.225)
        )
    made.put_clutter(0, letters=how_many(rng, difficulty, 0, 1))
    return made.scene(shape, "biggest" if biggest else "smallest")


def extreme(marks: list[Mark], superlative: str) -> Mark | None:
    """The biggest or smallest of them, if it clearly is."""
    ordered = sorted(marks, key=lambda mark: mark.size, reverse=superlative == "biggest")
    if len(ordered) < 2:
        return None
    ratio = ordered[0].size / ordered[1].size
    return ordered[0] if max(ratio, 1 / ratio) >= CLEARLY else None


def ask(scene: Scene, rng: Random) -> list[Question]:
    questions = []
    for shape in SHAPES:
        marks = [mark for mark in scene.objects if mark.shape == shape]
        for superlative in ("biggest", "smallest"):
            mark = extreme(marks, superlative)
            if mark is not None:
                questions.append(((f"what color is the {superlative} {shape}?", mark.color), (shape, superlative)))
    rng.shuffle(questions)
    questions.sort(key=lambda entry: entry[1] != scene.subject)
    return [question for question, _ in questions]


TASK = Task("comparison", "reasoning", "exact", compose, ask)
