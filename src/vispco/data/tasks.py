"""Synthetic tasks: `Task`, and those of seeing (attribute, position, existence) and reasoning (counting, comparison)."""

from abc import ABC, abstractmethod
from collections import Counter
from random import Random
from typing import ClassVar

from vispco.data.sample import Question
from vispco.data.scene import COLORS, PLACES, SHAPES, Board, Mark, Scene, picture_size


class Task(ABC):
    """A kind of question about a drawn picture."""

    name: ClassVar[str]
    group: ClassVar[str]  # seeing | reasoning | reading
    metric: ClassVar[str] = "exact"  # or relaxed

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


def _by_name(scene: Scene) -> dict[tuple[str, str], list[Mark]]:
    """Objects by (color, shape)."""
    names: dict[tuple[str, str], list[Mark]] = {}
    for mark in scene.objects:
        names.setdefault((mark.color, mark.shape), []).append(mark)
    return names


def count_of(scene: Scene, attribute: str) -> Counter[str]:
    """Numbers of objects by value of an attribute ("shape" or "color")."""
    return Counter(getattr(mark, attribute) for mark in scene.objects)


def _subject_first(questions: list[tuple[Question, tuple[str, str]]], scene: Scene, rng: Random) -> list[Question]:
    """Questions with what they are about, in a random order, but the one that the scene was composed for first."""
    rng.shuffle(questions)
    questions.sort(key=lambda entry: entry[1] != scene.subject)
    return [question for question, _ in questions]


_MARGIN = 0.03  # closer than this to a border between thirds, nobody is asked


class AttributeTask(Task):
    """The colour of the only object of its shape, or the shape of the only one of its colour."""

    name = "attribute"
    group = "seeing"

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
        return _subject_first(questions, scene, rng)


class PositionTask(Task):
    """In which ninth of the picture an object is."""

    name = "position"
    group = "seeing"

    def compose(self, rng: Random, difficulty: float) -> Scene:
        made = board(rng, difficulty)
        shape, color = rng.choice(SHAPES), rng.choice(list(COLORS))
        row, column = rng.randrange(3), rng.randrange(3)  # every ninth as often, though the board has sixteen cells
        x, y = ((edge / 3 + rng.uniform(_MARGIN, 1 / 3 - _MARGIN)) for edge in (column, row))
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
        for (color, shape), marks in _by_name(scene).items():
            answer = place(*marks[0].center) if len(marks) == 1 else None
            if answer is not None:
                questions.append(((f"where is the {color} {shape}?", answer), (color, shape)))
        return _subject_first(questions, scene, rng)


def _third(value: float) -> int | None:
    """0, 1 or 2; None where it would be hard to say."""
    if min(abs(value - 1 / 3), abs(value - 2 / 3)) < _MARGIN:
        return None
    return min(2, int(value * 3))


def place(x: float, y: float) -> str | None:
    column, row = _third(x), _third(y)
    return None if column is None or row is None else PLACES[row][column]


class ExistenceTask(Task):
    """Is there such an object? An absent one is made of a colour and a shape that are both present."""

    name = "existence"
    group = "seeing"

    def compose(self, rng: Random, difficulty: float) -> Scene:
        made = board(rng, difficulty)
        made.put_clutter(how_many(rng, difficulty, 2, 7), letters=how_many(rng, difficulty, 0, 2))
        return made.scene(rng.choice(("yes", "no")))

    def ask(self, scene: Scene, rng: Random) -> list[Question]:
        present = _by_name(scene)
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


MOST = 5
_CLEARLY = 1.3  # the extreme one is at least this many times larger or smaller than the next


class CountingTask(Task):
    """The number of objects of a shape or a colour."""

    name = "counting"
    group = "reasoning"

    def compose(self, rng: Random, difficulty: float) -> Scene:
        made = board(rng, difficulty)
        count = rng.randint(0, round(2 + (MOST - 2) * difficulty))
        by_shape = rng.random() < 0.5
        subject = rng.choice(SHAPES if by_shape else list(COLORS))
        for _ in range(count):
            if by_shape:
                made.put_object(subject, rng.choice(list(COLORS)))
            else:
                made.put_object(rng.choice(SHAPES), subject)
        for _ in range(how_many(rng, difficulty, 1, 5)):
            shape = rng.choice([name for name in SHAPES if not by_shape or name != subject])
            color = rng.choice([name for name in COLORS if by_shape or name != subject])
            made.put_object(shape, color)
        made.put_clutter(0, letters=how_many(rng, difficulty, 0, 2))
        return made.scene("shape" if by_shape else "color", subject)

    def ask(self, scene: Scene, rng: Random) -> list[Question]:
        if not scene.objects:
            return []
        counts = {
            ("shape", name): count_of(scene, "shape")[name] for name in SHAPES
        } | {("color", name): count_of(scene, "color")[name] for name in COLORS}  # fmt: skip
        # High counts are rare in a random scene: ask about them first, and about few of the absent ones.
        keys = [key for key, count in counts.items() if count <= MOST]
        weights = {key: rng.random() ** (1 / (1 + counts[key] ** 2)) for key in keys}
        keys.sort(key=lambda key: (key != scene.subject, -weights[key]))
        text = {"shape": "how many {}s are there?", "color": "how many things are {}?"}
        plural = {"cross": "crosse"}
        return [(text[kind].format(plural.get(name, name)), str(counts[kind, name])) for kind, name in keys[:8]]


class ComparisonTask(Task):
    """Among objects of one shape, the colour of the biggest or the smallest."""

    name = "comparison"
    group = "reasoning"

    def compose(self, rng: Random, difficulty: float) -> Scene:
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
                rng.choice([name for name in SHAPES if name != shape]),
                rng.choice(list(COLORS)),
                rng.uniform(0.11, 0.225),
            )
        made.put_clutter(0, letters=how_many(rng, difficulty, 0, 1))
        return made.scene(shape, "biggest" if biggest else "smallest")

    def ask(self, scene: Scene, rng: Random) -> list[Question]:
        questions = []
        for shape in SHAPES:
            marks = [mark for mark in scene.objects if mark.shape == shape]
            for superlative in ("biggest", "smallest") if len(marks) > 1 else ():
                first, second = sorted(marks, key=lambda mark: mark.size, reverse=superlative == "biggest")[:2]
                ratio = first.size / second.size
                if max(ratio, 1 / ratio) >= _CLEARLY:
                    questions.append(((f"what color is the {superlative} {shape}?", first.color), (shape, superlative)))
        return _subject_first(questions, scene, rng)
