"""Reading: the entry of a table at a row and a column, both named by the letter in their header."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vispco.data.objects import how_many
from vispco.data.sample import Question, Task
from vispco.data.scene import Board, Mark, ink_on, picture_size
from vispco.data.vocabulary import COLUMN_HEADERS, DIGITS, ROW_HEADERS

if TYPE_CHECKING:
    from random import Random

    from vispco.data.scene import Scene


def compose(rng: Random, difficulty: float) -> Scene:
    made = Board(rng, picture_size(rng, difficulty, small=112))
    rows, columns = how_many(rng, difficulty, 2, 3), how_many(rng, difficulty, 2, 3)
    cell_x, cell_y = rng.uniform(0.2, 0.24), rng.uniform(0.19, 0.24)
    left = rng.uniform(0.02, 0.98 - cell_x * (columns + 1))
    top = rng.uniform(0.02, 0.98 - cell_y * (rows + 1))
    right, bottom = left + cell_x * (columns + 1), top + cell_y * (rows + 1)
    made.take((left, top, right, bottom))
    ink = ink_on(made.paper)
    shift = -40 if ink[0] < 128 else 40
    shade = (made.paper[0] + shift, made.paper[1] + shift, made.paper[2] + shift)
    made.marks.append(Mark("panel", (left, top, right, top + cell_y), shade))
    made.marks.append(Mark("panel", (left, top, left + cell_x, bottom), shade))
    for line in range(rows + 2):
        made.marks.append(Mark("stroke", (left, top + cell_y * line, right, top + cell_y * line), shade))
    for line in range(columns + 2):
        made.marks.append(Mark("stroke", (left + cell_x * line, top, left + cell_x * line, bottom), shade))
    names = ["", *rng.sample(ROW_HEADERS, rows)], ["", *rng.sample(COLUMN_HEADERS, columns)]
    for j, row in enumerate(names[0]):
        for i, column in enumerate(names[1]):
            char = rng.choice(DIGITS) if row and column else row or column
            if char:
                x, y = left + cell_x * (i + 0.5), top + cell_y * (j + 0.5)
                made.put_glyph(char, x, y, 0.15, ink, row=row, column=column)
    made.put_clutter(how_many(rng, difficulty, 0, 3))
    return made.scene(rng.choice(names[0][1:]), rng.choice(names[1][1:]))


def ask(scene: Scene, rng: Random) -> list[Question]:
    entries = [mark for mark in scene.marks if mark.row and mark.column]
    rng.shuffle(entries)
    entries.sort(key=lambda mark: (mark.row, mark.column) != scene.subject)
    return [(f"what number is in row {mark.row} column {mark.column}?", mark.char) for mark in entries]


TASK = Task("table", "reading", "exact", compose, ask)
