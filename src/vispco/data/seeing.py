"""Tasks of seeing: the attribute of an object, its position, whether it is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vispco.data.task import Task, board, by_name, count_of, how_many
from vispco.data.vocabulary import COLORS, PLACES, SHAPES

if TYPE_CHECKING:
    from random import Random

    from vispco.data.sample import Question
    from vispco.data.scene import Scene

MARGIN = 0.03  # closer than this to a border between thirds, nobody is asked


class AttributeTask(Task):
    """The colour of the only object of its shape, or the shape of the only one of its colour."""

    name = "attribute"
    group = "seeing"
    metric = "exact"

    def compose(self, rng: Random, difficulty: float) -> Scene:
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

    def ask(self, scene: Scene, rng: Random) -> list[Question]:
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


class PositionTask(Task):
    """In which ninth of the picture an object is."""

    name = "position"
    group = "seeing"
    metric = "exact"

    def compose(self, rng: Random, difficulty: float) -> Scene:
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

    def ask(self, scene: Scene, rng: Random) -> list[Question]:
        questions = []
        for (color, shape), marks in by_name(scene).items():
            answer = place(*marks[0].center) if len(marks) == 1 else None
            if answer is not None:
                questions.append(((f"where is the {color} {shape}?", answer), (color, shape)))
        rng.shuffle(questions)
        questions.sort(key=lambda entry: entry[1] != scene.subject)
        return [question for question, _ in questions]


def third(value: float) -> int | None:
    """0, 1 or 2; None where it would be hard to say."""
    if min(abs(value - 1 / 3), abs(value - 2 / 3)) < MARGIN:
        return None
    return min(2, int(value * 3))


def place(x: float, y: float) -> str | None:
    column, row = third(x), third(y)
    return None if column is None or row is None else PLACES[row][column]


class ExistenceTask(Task):
    """Is there such an object? An absent one is made of a colour and a shape that are both present."""

    name = "existence"
    group = "seeing"
    metric = "exact"

    def compose(self, rng: Random, difficulty: float) -> Scene:
        made = board(rng, difficulty)
        made.put_clutter(how_many(rng, difficulty, 2, 7), letters=how_many(rng, difficulty, 0, 2))
        return made.scene(rng.choice(("yes", "no")))

    def ask(self, scene: Scene, rng: Random) -> list[Question]:
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
