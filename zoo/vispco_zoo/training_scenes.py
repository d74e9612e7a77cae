"""The pictures that a model is trained on, and the questions that are asked about each.

What is drawn from `rng`, and in which order, is part of the shipped weights: they can only be trained again bit by bit
if it stays as it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from PIL.Image import Resampling

from vispco.data.dataset import SPLITS, TASKS, compose
from vispco.data.scene import COLORS, DIGITS, LETTERS, SHAPES, Board, Mark, draw, ink_on, picture_size, tint
from vispco.data.tasks import board, how_many
from vispco_zoo.wordings import reword

if TYPE_CHECKING:
    from random import Random

    from PIL.Image import Image

    from vispco.data.sample import Question
    from vispco.data.scene import Scene
    from vispco_zoo.recipe import Round


@dataclass(frozen=True, slots=True)
class TrainingExample:
    """A drawn scene and the questions (task, question, answer) that are packed behind it."""

    scene: Scene
    image: Image
    questions: tuple[tuple[str, str, str], ...]


def examples(
    rng: Random, count: int, weights: dict[str, float], difficulty: float, questions: int, part: Round | None = None
) -> list[TrainingExample]:  # fmt: skip
    """`count` training pictures whose tasks are drawn by weight.

    Within a round of the last stage (`part`) every scene is as full as those of the test set.
    """
    names = list(weights)
    chosen = rng.choices(names, [weights[name] for name in names], k=count)
    made = []
    for name in chosen:
        level = difficulty if part is not None or rng.random() < 0.6 else rng.random() * difficulty
        most = 6 if name != "counting" else 3 if part is None else 1  # high counts come first
        if name == "counting" and part is not None and part.crowds and rng.random() < part.crowds:
            scene, own = _compose_crowd(rng, level)
            most = 7
        else:
            scene, own = compose(name, "train", rng, level)
        asked = [(name, *question) for question in own[:most]]
        others = []
        for other, task in TASKS.items():
            if other != name:
                others += [(other, *question) for question in task.ask(scene, rng)[: 1 if other == "counting" else 2]]
        rng.shuffle(others)
        asked = (asked + (others[: part.other_questions] if part is not None and name == "counting" else others))[
            :questions
        ]
        rng.shuffle(asked)
        made.append(TrainingExample(scene, draw(scene), tuple(asked)))
    return made


def tower_examples(rng: Random, count: int, difficulty: float) -> list[TrainingExample]:
    """Pictures for the vision tower alone: full of glyphs at first, then like those of the tasks."""
    made = []
    for _ in range(count):
        if rng.random() < 0.75 - 0.5 * difficulty:
            scene = _compose_glyphs(rng)
        else:
            name = rng.choice([*TASKS, "word", "chart", "table", "table"])  # reading is the last skill to come
            scene, _ = compose(name, "train", rng, difficulty)
        made.append(TrainingExample(scene, draw(scene), ()))
    return made


def resample(rng: Random, example: TrainingExample, share: float, scales: tuple[float, float]) -> TrainingExample:
    """The example with its picture scaled, both sides alike, by a random factor; as it was with probability 1 - share."""
    if rng.random() >= share:
        return example
    factor = math.exp(rng.uniform(math.log(scales[0]), math.log(scales[1])))
    image = example.image
    size = (max(1, round(image.width * factor)), max(1, round(image.height * factor)))
    return replace(example, image=image.resize(size, Resampling.BICUBIC))


def reword_questions(rng: Random, example: TrainingExample, share: float) -> TrainingExample:
    """The example with longer wordings of a share of its questions."""
    asked = [(t, reword(q, rng) if rng.random() < share else q, a) for t, q, a in example.questions]
    return replace(example, questions=tuple(asked))


def _compose_crowd(rng: Random, difficulty: float) -> tuple[Scene, list[Question]]:
    """A scene with many objects of few kinds, so that most counts are high; and its counting questions.

    Five to ten objects of two or three shapes and two or three colours. Questions whose answer is 0 are left out.
    """
    while True:
        made = board(rng, difficulty)
        shapes, colors = rng.sample(SHAPES, rng.randint(2, 3)), rng.sample(list(COLORS), rng.randint(2, 3))
        for _ in range(rng.randint(5, 10)):
            made.put_object(rng.choice(shapes), rng.choice(colors))
        made.put_clutter(0, letters=how_many(rng, difficulty, 0, 2))
        scene = made.scene()
        questions = TASKS["counting"].ask(scene, rng)
        if scene.fingerprint % 16 in SPLITS["train"]:
            return scene, [question for question in questions if question[1] != "0"]


def _compose_glyphs(rng: Random) -> Scene:
    """A scene full of letters, digits and objects, for the first steps of a vision tower."""
    made = Board(rng, picture_size(rng, 0.1, small=100))
    for _ in range(rng.randint(10, 15)):
        if rng.random() < 0.25:
            made.put_object(rng.choice(SHAPES), rng.choice(list(COLORS)), rng.uniform(0.11, 0.225))
            continue
        size = rng.uniform(0.13, 0.18)
        x, y = made.spot(size)
        ink, color = ink_on(made.paper), ""
        if rng.random() < 0.4:
            color = rng.choice(list(COLORS))
            made.marks.append(Mark("sign", made.square(x, y, size + 0.07), tint(rng, color), color=color))
            made.marks.append(Mark("panel", made.square(x, y, size + 0.02), (rng.randint(215, 255),) * 3))
        made.put_glyph(rng.choice(LETTERS + DIGITS), x, y, size, ink, color=color)
    return made.scene()
