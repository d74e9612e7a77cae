"""From a scene to pixels, with Pillow and nothing else."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image, ImageDraw, ImageFont

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vispco.data.scene import Mark, Scene

PixelBox = tuple[float, float, float, float]


def draw(scene: Scene) -> Image.Image:
    """The picture of a scene: textured paper, then the marks in their order."""
    image = Image.fromarray(_paper(scene))
    pen = ImageDraw.Draw(image)
    for mark in scene.marks:
        box = (
            mark.box[0] * scene.width,
            mark.box[1] * scene.height,
            mark.box[2] * scene.width,
            mark.box[3] * scene.height,
        )
        if mark.kind == "object":
            _object(pen, mark, box)
        elif mark.kind == "glyph":
            _glyph(pen, mark, box)
        elif mark.kind == "stroke":
            pen.line(box, fill=mark.rgb, width=max(1, min(scene.width, scene.height) // 60))
        else:
            pen.rectangle(box, fill=mark.rgb)
    return image


def _paper(scene: Scene) -> np.ndarray:
    """A slope of light over the page and a grain, both from the scene's texture seed."""
    rng = np.random.default_rng(scene.texture)
    slope_x, slope_y, grain = rng.uniform(-12, 12), rng.uniform(-12, 12), rng.uniform(0, 6)
    x = np.linspace(-1, 1, scene.width, dtype=np.float32)[None, :]
    y = np.linspace(-1, 1, scene.height, dtype=np.float32)[:, None]
    light = slope_x * x + slope_y * y + grain * rng.standard_normal((scene.height, scene.width), dtype=np.float32)
    page = np.asarray(scene.paper, dtype=np.float32) + light[:, :, None]
    pixels: np.ndarray = np.clip(page, 0, 255).astype(np.uint8)
    return pixels


def _polygon(center: tuple[float, float], radii: Sequence[float], turn: float) -> list[tuple[float, float]]:
    step = 2 * math.pi / len(radii)
    return [
        (center[0] + radius * math.sin(turn + step * i), center[1] - radius * math.cos(turn + step * i))
        for i, radius in enumerate(radii)
    ]


def _object(pen: ImageDraw.ImageDraw, mark: Mark, box: PixelBox) -> None:
    x0, y0, x1, y1 = box
    center, radius = ((x0 + x1) / 2, (y0 + y1) / 2), (x1 - x0) / 2
    if mark.shape == "circle":
        pen.ellipse(box, fill=mark.rgb)
    elif mark.shape == "square":
        inset = radius * 0.12
        pen.rectangle((x0 + inset, y0 + inset, x1 - inset, y1 - inset), fill=mark.rgb)
    elif mark.shape == "triangle":
        pen.polygon(((x0 + x1) / 2, y0, x1, y1, x0, y1), fill=mark.rgb)
    elif mark.shape == "cross":
        arm = radius * 0.3
        pen.rectangle((center[0] - arm, y0, center[0] + arm, y1), fill=mark.rgb)
        pen.rectangle((x0, center[1] - arm, x1, center[1] + arm), fill=mark.rgb)
    elif mark.shape == "ring":
        pen.ellipse(box, outline=mark.rgb, width=max(2, round(radius * 0.38)))
    else:
        pen.polygon(_polygon(center, (radius * 1.1, radius * 0.45) * 5, 0.0), fill=mark.rgb)


@lru_cache(maxsize=256)
def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)


def _glyph(pen: ImageDraw.ImageDraw, mark: Mark, box: PixelBox) -> None:
    center = ((box[0] + box[2]) / 2, (box[1] + box[3]) / 2)
    font = _font(max(7, round((box[3] - box[1]) * 1.15)))
    bold = (box[3] - box[1]) * 0.035
    pen.text(center, mark.char.upper(), fill=mark.rgb, font=font, anchor="mm", stroke_width=bold, stroke_fill=mark.rgb)
