"""Reading: the value of one bar of a chart; its number stands over the bar, whose height is in proportion."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vispco.data.objects import how_many
from vispco.data.sample import Question, Task
from vispco.data.scene import Board, Mark, ink_on, picture_size, tint
from vispco.data.vocabulary import COLORS

if TYPE_CHECKING:
    from random import Random

    from vispco.data.scene import Scene


def compose(rng: Random, difficulty: float) -> Scene:
    made = Board(rng, picture_size(rng, difficulty, small=112))
    bars = how_many(rng, difficulty, 2, 4) if difficulty < 1 else rng.randint(3, 4)
    colors = rng.sample(list(COLORS), bars)
    floor, slot = rng.uniform(0.86, 0.96), 0.94 / bars
    advance = min(0.125, slot * 0.47)
    width = rng.uniform(0.5, 0.8) * slot
    ink = ink_on(made.paper)
    shift = -30 if ink[0] < 128 else 30
    faint = (made.paper[0] + shift, made.paper[1] + shift, made.paper[2] + shift)
    for line in range(rng.randint(2, 5)):  # the grid
        y = floor - line * 0.17
        made.marks.append(Mark("stroke", (0.02, y, 0.98, y), faint))
    for place, color in enumerate(colors):
        value = rng.randint(10, 99)
        x, top = 0.03 + slot * (place + 0.5), floor - 0.68 * value / 99
        rgb = tint(rng, color)
        made.marks.append(Mark("bar", (x - width / 2, top, x + width / 2, floor), rgb, color=color))
        for index, char in enumerate(str(value), start=1):
            made.put_glyph(char, x + advance * (index - 1.5), top - 0.075, 0.125, ink, color=color, index=index)
    made.marks.append(Mark("panel", (0.02, floor, 0.98, floor + 0.015), ink))
    return made.scene(rng.choice(colors))


def ask(scene: Scene, rng: Random) -> list[Question]:
    colors = [mark.color for mark in scene.marks if mark.kind == "bar"]
    rng.shuffle(colors)
    colors.sort(key=lambda color: (color,) != scene.subject)
    values = {
        color: "".join(mark.char for mark in scene.marks if mark.kind == "glyph" and mark.color == color)
        for color in colors
    }
    return [(f"what is the value of the {color} bar?", values[color]) for color in colors]


TASK = Task("chart", "reading", "relaxed", compose, ask)
