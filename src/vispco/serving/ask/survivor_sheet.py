"""A sheet of pictures: one for each layer at which tokens leave, with the places of the tokens that are left."""

import math
from collections.abc import Sequence

from PIL import Image, ImageDraw, ImageFont

Depth = Sequence[Sequence[int]]  # [rows][columns]: how many layers process each token
SIDE = 220  # pixels of a small picture's longer side
GAP, LINE, MARGIN = 14, 20, 16
INK, SOFT, PAPER = (28, 33, 41), (93, 100, 112), (255, 255, 255)
MOST = 12


def layers_shown(depth: Depth, num_layers: int, most: int = MOST) -> list[int]:
    """Layer 0, each layer that fewer tokens enter than the one before, and the last; thinned out evenly to `most`."""
    left = {value for row in depth for value in row if 0 < value < num_layers}
    left |= {0} if any(value == 0 for row in depth for value in row) else set()
    changes = sorted({0, *left, num_layers - 1})
    if len(changes) <= most:
        return changes
    picked = {round(place * (len(changes) - 1) / (most - 1)) for place in range(most)}
    return [changes[place] for place in sorted(picked)]


def survivors_at(picture: Image.Image, depth: Depth, layer: int) -> Image.Image:
    """The picture with the places of tokens that have left before `layer` faded to near white."""
    rows, columns = len(depth), len(depth[0])
    mask = Image.new("L", (columns, rows))
    mask.putdata([255 if value > layer else 0 for row in depth for value in row])
    faded = Image.blend(picture, Image.new("RGB", picture.size, PAPER), 0.86)
    return Image.composite(picture, faded, mask.resize(picture.size, Image.Resampling.NEAREST))


def sheet(picture: Image.Image, depth: Depth, num_layers: int, title: Sequence[str]) -> Image.Image:
    """All of `layers_shown` with their numbers of tokens, row by row, under the lines of a title."""
    small = picture.convert("RGB")
    scale = SIDE / max(small.size)
    small = small.resize((max(1, round(small.width * scale)), max(1, round(small.height * scale))))
    shown = layers_shown(depth, num_layers)
    columns = min(len(shown), max(1, math.ceil(math.sqrt(1.6 * len(shown)))))
    rows = math.ceil(len(shown) / columns)
    cell = (max(small.width, 120) + GAP, small.height + GAP + LINE)
    font = ImageFont.load_default(size=13)
    lines = [line for each in title for line in _wrapped(each, font, columns * cell[0] - GAP)]
    top = MARGIN + LINE * len(lines) + GAP // 2
    page = Image.new("RGB", (2 * MARGIN + columns * cell[0] - GAP, top + rows * cell[1] + MARGIN - GAP), PAPER)
    draw = ImageDraw.Draw(page)
    for number, line in enumerate(lines):
        draw.text((MARGIN, MARGIN + LINE * number), line, fill=INK, font=font)
    total = sum(len(row) for row in depth)
    for number, layer in enumerate(shown):
        left, up = MARGIN + number % columns * cell[0], top + number // columns * cell[1]
        alive = sum(value > layer for row in depth for value in row)
        draw.text((left, up), f"layer {layer}: {alive} of {total}", fill=SOFT, font=font)
        page.paste(survivors_at(small, depth, layer), (left, up + LINE))
    return page


def _wrapped(text: str, font: ImageFont.FreeTypeFont | ImageFont.ImageFont, width: int) -> list[str]:
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if font.getlength(longer) > width and lines[-1]:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines[:4]
