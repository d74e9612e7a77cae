"""Pictures with many things of few kinds, for learning to count: nearly every count in them is worth asking."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vispco.data import counting
from vispco.data.dataset import SPLITS
from vispco.data.objects import board, how_many
from vispco.data.vocabulary import COLORS, SHAPES

if TYPE_CHECKING:
    from random import Random

    from vispco.data.sample import Question
    from vispco.data.scene import Scene


def compose(rng: Random, difficulty: float) -> tuple[Scene, list[Question]]:
    """A scene of the training split, five to ten objects of two or three shapes and as many colours; what is there.

    What is drawn from `rng`, and in which order, is part of the shipped weights: they come from it bit by bit.
    """
    while True:
        made = board(rng, difficulty)
        shapes, colors = rng.sample(SHAPES, rng.randint(2, 3)), rng.sample(list(COLORS), rng.randint(2, 3))
        for _ in range(rng.randint(5, 10)):
            made.put_object(rng.choice(shapes), rng.choice(colors))
        made.put_clutter(0, letters=how_many(rng, difficulty, 0, 2))
        scene = made.scene()
        questions = counting.ask(scene, rng)
        if scene.fingerprint % 16 in SPLITS["train"]:
            return scene, [question for question in questions if question[1] != "0"]
