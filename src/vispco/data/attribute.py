"""Seeing: the colour of the only object of its shape, or the shape of the only one of its colour."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vispco.data.objects import board, count_of, how_many
from vispco.data.sample import Question, Task
from vispco.data.vocabulary import COLORS, SHAPES

if TYPE_CHECKING:
    from random import Random

    from vispco.data.scene import Scene


def compose(rng: Random, difficulty: float) -> Scene:
    made = board(rng, difficulty)
    shape, color = rng.choice(SHAPES), rng.choice(list(COLORS))
    made.put_object(shape, color)
    by_shape = rng.random() < 0.5
    for _ in range(how_many(rng, difficulty, 1, 7)):
        other_shape = rng.choice([name for name in SHAPES if not by_shape or name != shape])
        other_color = rng.choice([name for name in COLORS if by_shape or name != color])
        made.put_object(other_shape, other_color)
    made.put_clutter(0, letters=how_many(rng, difficulty, 0, 2))
    return made.scene(*(("shape", shape) if by_shape else ("color", color)))


def ask(scene: Scene, rng: Random) -> list[Question]:
    shapes, colors = count_of(scene, "shape"), count_of(scene, "color")
    questions = []
    for mark in scene.objects:
        if shapes[mark.shape] == 1:
            questions.append(((f"what color is the {mark.shape}?", mark.color), ("shape", mark.shape)))
        if colors[mark.color] == 1:
            questions.append(((f"what shape is {mark.color}?", mark.shape), ("color", mark.color)))
    rng.shuffle(questions)
    questions.sort(key=lambda entry: entry[1] != scene.subject)
    return [question for question, _ in questions]


TASK = Task("attribute", "seeing", "exact", compose, ask)
