"""Tasks of reasoning: counting objects, comparing their sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vispco.data.task import Task, board, count_of, how_many
from vispco.data.vocabulary import COLORS, SHAPES

if TYPE_CHECKING:
    from random import Random

    from vispco.data.sample import Question
    from vispco.data.scene import Mark, Scene

MOST = 5
CLEARLY = 1.3  # the extreme one is at least so many times larger or smaller than the next


class CountingTask(Task):
    """How many objects of a shape or a colour there are."""

    name = "counting"
    group = "reasoning"
    metric = "exact"

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
    metric = "exact"

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
            for superlative in ("biggest", "smallest"):
                mark = extreme(marks, superlative)
                if mark is not None:
                    questions.append(((f"what color is the {superlative} {shape}?", mark.color), (shape, superlative)))
        rng.shuffle(questions)
        questions.sort(key=lambda entry: entry[1] != scene.subject)
        return [question for question, _ in questions]


def extreme(marks: list[Mark], superlative: str) -> Mark | None:
    """The biggest or smallest of them, if it clearly is."""
    ordered = sorted(marks, key=lambda mark: mark.size, reverse=superlative == "biggest")
    if len(ordered) < 2:
        return None
    ratio = ordered[0].size / ordered[1].size
    return ordered[0] if max(ratio, 1 / ratio) >= CLEARLY else None
