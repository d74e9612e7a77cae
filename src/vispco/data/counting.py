"""Reasoning: how many objects of a shape or a colour there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vispco.data.objects import board, count_of, how_many
from vispco.data.sample import Question, Task
from vispco.data.vocabulary import COLORS, SHAPES

if TYPE_CHECKING:
    from random import Random

    from vispco.data.scene import Scene

MOST = 5


def compose(rng: Random, difficulty: float) -> Scene:
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


def ask(scene: Scene, rng: Random) -> list[Question]:
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


TASK = Task("counting", "reasoning", "exact", compose, ask)
