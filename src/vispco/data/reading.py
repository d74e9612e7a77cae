"""Tasks of reading: the word on a sign, the value of a bar, an entry of a table."""

from random import Random

from vispco.data.sample import Question
from vispco.data.scene import (
    COLORS,
    COLUMN_HEADERS,
    DIGITS,
    ROW_HEADERS,
    WORDS,
    Board,
    Mark,
    Scene,
    ink_on,
    picture_size,
    tint,
)
from vispco.data.tasks import Task, how_many


class WordTask(Task):
    """The word on the sign of a colour, among other signs."""

    name = "word"
    group = "reading"

    def compose(self, rng: Random, difficulty: float) -> Scene:
        made = Board(rng, picture_size(rng, difficulty, small=112))
        signs = how_many(rng, difficulty, 1, 3)
        colors = rng.sample(list(COLORS), signs)
        for color, band in zip(colors, rng.sample(range(4), signs), strict=True):
            _put_sign(made, rng.choice(WORDS), color, (band + 0.5) / 4)
        made.put_clutter(how_many(rng, difficulty, 0, 3))
        return made.scene(colors[0])

    def ask(self, scene: Scene, rng: Random) -> list[Question]:
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


def _put_sign(made: Board, word: str, color: str, y: float) -> None:
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


class ChartTask(Task):
    """The value of one bar of a chart. Its number stands over the bar; the height is in proportion."""

    name = "chart"
    group = "reading"
    metric = "relaxed"

    def compose(self, rng: Random, difficulty: float) -> Scene:
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

    def ask(self, scene: Scene, rng: Random) -> list[Question]:
        colors = [mark.color for mark in scene.marks if mark.kind == "bar"]
        rng.shuffle(colors)
        colors.sort(key=lambda color: (color,) != scene.subject)
        values = {
            color: "".join(mark.char for mark in scene.marks if mark.kind == "glyph" and mark.color == color)
            for color in colors
        }
        return [(f"what is the value of the {color} bar?", values[color]) for color in colors]


class TableTask(Task):
    """The entry of a table at a row and a column, both named by the letter in their header."""

    name = "table"
    group = "reading"

    def compose(self, rng: Random, difficulty: float) -> Scene:
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

    def ask(self, scene: Scene, rng: Random) -> list[Question]:
        entries = [mark for mark in scene.marks if mark.row and mark.column]
        rng.shuffle(entries)
        entries.sort(key=lambda mark: (mark.row, mark.column) != scene.subject)
        return [(f"what number is in row {mark.row} column {mark.column}?", mark.char) for mark in entries]
