"""Seeing: is there such an object? The absent ones are made of a colour and a shape that are both present."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vispco.data.objects import board, by_name, how_many
from vispco.data.sample import Question, Task
from vispco.data.vocabulary import COLORS, SHAPES

if TYPE_CHECKING:
    from random import Random

    from vispco.data.scene import Scene


def compose(rng: Random, difficulty: float) -> Scene:
    made = board(rng, difficulty)
    made.put_clutter(how_many(rng, difficulty, 2, 7), letters=how_many(rng, difficulty, 0, 2))
    return made.scene(rng.choice(("yes", "no")))


def ask(scene: Scene, rng: Random) -> list[Question]:
    present = by_name(scene)
    if not present:
        return []
    colors, shapes = {color for color, _ in present}, {shape for _, shape in present}
    near = [(color, shape) for color in colors for shape in shapes if (color, shape) not in present]
    far = [(color, shape) for color in COLORS for shape in SHAPES if (color, shape) not in present]
    near.sort()
    yes, no = rng.sample(list(present), len(present)), []
    for _ in yes:
        pool = near if near and rng.random() < 0.7 else far
        no.append(rng.choice(pool))
    questions = [
        question
        for present_name, absent_name in zip(yes, no, strict=True)
        for question in (
            (f"is there a {present_name[0]} {present_name[1]}?", "yes"),
            (f"is there a {absent_name[0]} {absent_name[1]}?", "no"),
        )
    ]
    first = scene.subject[0] if scene.subject in (("yes",), ("no",)) else rng.choice(("yes", "no"))
    if questions[0][1] != first:
        questions[0], questions[1] = questions[1], questions[0]
    return questions


TASK = Task("existence", "seeing", "exact", compose, ask)
