"""Pictures of examples, and what is known of their tokens, as short texts for the page."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable
from typing import Any

from PIL import Image

SIDE = 360  # pixels of a picture's longer side on the page
QUALITY = 82  # of its WebP


def data_uri(image: Image.Image) -> str:
    """A small WebP, inline."""
    small = image.copy()
    small.thumbnail((SIDE, SIDE), Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    small.save(buffer, "WEBP", quality=QUALITY, method=6)
    return "data:image/webp;base64," + base64.b64encode(buffer.getvalue()).decode()


def as_seen(image: Image.Image, processor: Any) -> Image.Image:
    """The part of a picture that the token grid covers: a centre crop, where the processor makes one."""
    images = getattr(processor, "image_processor", processor)
    image = image.convert("RGB")
    if not getattr(images, "do_center_crop", False):
        return image
    size, crop = _sides(images.size), _sides(images.crop_size)
    scale = size["shortest_edge"] / min(image.size) if "shortest_edge" in size else 1.0
    width, height = (min(crop[side] / scale, full) for side, full in zip(("width", "height"), image.size, strict=True))
    left, top = (image.width - width) / 2, (image.height - height) / 2
    return image.crop((round(left), round(top), round(left + width), round(top + height)))


def pack(depth: Iterable[int]) -> str:
    """One byte per token: how many layers process it."""
    return base64.b64encode(bytes(depth)).decode()


def unpack(depth: str, rows: int, columns: int) -> list[list[int]]:
    """The depth of every token, [rows][columns]."""
    values = base64.b64decode(depth)
    return [list(values[row * columns : (row + 1) * columns]) for row in range(rows)]


def _sides(size: Any) -> dict[str, float]:
    return {key: float(value) for key, value in dict(size).items() if value is not None}
