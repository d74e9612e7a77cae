"""Seeing: in which ninth of the picture an object is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vispco.data.objects import board, by_name, how_many
from vispco.data.sample import Question, Task
from vispco.data.vocabulary import COLORS, PLACES, SHAPES

if TYPE_CHECKING:
    from random import Random

    from vispco.data.scene import Scene

MARGIN = 0.03  # closer than this to a border between thirds, nobody is asked


def third(value: float) -> int | None:
    """0, 1 or 2; None where it would be hard to say."""
    if min(abs(value - 1 / 3), abs(value - 2 / 3)) < MARGIN:
        return None
    return min(2, int(value * 3))


def place(x: float, y: float) -> str | None:
    column, row = third(x), third(y)
    return None if column is None or row is None else PLACES[row][column]


def compose(rng: Random, difficulty: float) -> Scene:
    made = board(rng, difficulty)
    shape, color = rng.choice(SHAPES), rng.choice(list(COLORS))
    row, column = rng.randrange(3), rng.randrange(3)  # every ninth as often, though the board has sixteen cells
    x, y = ((edge / 3 + rng.uniform(MARGIN, 1 / 3 - MARGIN)) for edge in (column, row))
    size = rng.uniform(0.13, 0.21)
    x, y = (min(max(value, size / 2 + 0.01), 1 - size / 2 - 0.01) for value in (x, y))
    made.put_object_at(shape, color, size, x, y)
    for _ in range(min(how_many(rng, difficulty, 0, 6), len(made.free))):
        if rng.random() < 0.4:  # shares one attribute with the subject
            same_shape = rng.random() < 0.5
            other_shape = shape if same_shape else rng.choice([name for name in SHAPES if name != shape])
            other_color = color if not same_shape else rng.choice([name for name in COLORS if name != color])
        else:
            other_shape = rng.choice([name for name in SHAPES if name != shape])
            other_color = rng.choice(list(COLORS))
        made.put_object(other_shape, other_color)
    made.put_clutter(0, letters=how_many(rng, difficulty, 0, 2))
    return made.scene(color, shape)


def ask(scene: Scene, rng: Random) -> list[Question]:
    questions = []
    for (color, shape), marks in by_name(scene).items():
        answer = place(*marks[0].center) if len(marks) == 1 else None
        if answer is not None:
            questions.append(((f"where is the {color} {shape}?", answer), (color, shape)))
    rng.shuffle(questions)
    questions.sort(key=lambda entry: entry[1] != scene.subject)
    return [question for question, _ in questions]


TASK = Task("position", "seeing", "exact", compose, ask)
