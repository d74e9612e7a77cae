"""Pictures full of letters, digits and objects, for the first steps of a vision tower."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vispco.data.scene import Board, Mark, ink_on, picture_size, tint
from vispco.data.vocabulary import COLORS, DIGITS, LETTERS, SHAPES

if TYPE_CHECKING:
    from random import Random

    from vispco.data.scene import Scene


def compose(rng: Random) -> Scene:
    """Most of the sixteen cells are taken; a glyph stands on the paper or on a coloured plate, often a large one."""
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
