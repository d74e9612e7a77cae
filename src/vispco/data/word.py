"""Reading: the word on the sign of a colour, among other signs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vispco.data.objects import how_many
from vispco.data.sample import Question, Task
from vispco.data.scene import Board, Mark, ink_on, picture_size, tint
from vispco.data.vocabulary import COLORS, WORDS

if TYPE_CHECKING:
    from random import Random

    from vispco.data.scene import Scene


def compose(rng: Random, difficulty: float) -> Scene:
    made = Board(rng, picture_size(rng, difficulty, small=112))
    signs = how_many(rng, difficulty, 1, 3)
    colors = rng.sample(list(COLORS), signs)
    for color, band in zip(colors, rng.sample(range(4), signs), strict=True):
        put_sign(made, rng.choice(WORDS), color, (band + 0.5) / 4)
    made.put_clutter(how_many(rng, difficulty, 0, 3))
    return made.scene(colors[0])


def put_sign(made: Board, word: str, color: str, y: float) -> None:
    rng = made.rng
    advance, height = rng.uniform(0.13, 0.15), rng.uniform(0.205, 0.23)
    width = advance * len(word) + 0.08
    x = rng.uniform(0.02, 0.98 - width)
    box = (x, y - height / 2, x + width, y + height / 2)
    made.take(box)
    made.marks.append(Mark("sign", box, tint(rng, color), color=color))
    plate = (rng.randint(215, 255),) * 3
    made.marks.append(Mark("panel", (box[0] + 0.03, box[1] + 0.03, box[2] - 0.03, box[3] - 0.03), plate))
    for index, char in enumerate(word, start=1):
        center = x + 0.04 + advance * (index - 0.5)
        made.put_glyph(char, center, y, 0.14, ink_on(plate), color=color, index=index)


def ask(scene: Scene, rng: Random) -> list[Question]:
    words: dict[str, str] = {}
    for mark in scene.marks:
        if mark.kind == "sign":
            words[mark.color] = "".join(
                glyph.char
                for glyph in scene.marks
                if glyph.kind == "glyph" and glyph.color == mark.color and glyph.index and glyph.char.isalpha()
            )
    colors = rng.sample(list(words), len(words))
    colors.sort(key=lambda color: (color,) != scene.subject)
    return [(f"what word is on the {color} sign?", words[color]) for color in colors]


TASK = Task("word", "reading", "exact", compose, ask)
