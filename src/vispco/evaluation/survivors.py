"""Surviving tokens on a picture: where each token lies, how many layers process it, and the picture that it covers."""

import base64
import io
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from vispco.core.errors import InvalidInputError
from vispco.evaluation.encoded import Encoded
from vispco.families import family_of

SIDE = 360  # pixels of a picture's longer side on the page
_QUALITY = 82  # of its WebP


def token_grid(model: Any, encoded: Encoded) -> tuple[Tensor, int, int]:
    """The place in the grid of each visual token of the first picture or frame, [V'], and the grid's rows and columns."""
    layout = family_of(model).layout(model, encoded.inputs)
    cells = layout.cell_at
    if cells is None:
        raise InvalidInputError(
            f"The token grid of {type(model).__name__} is not known, so survivors cannot be drawn on the picture."
        )
    _, row, column = cells[0, layout.picture_at[0] == 0].T
    rows, columns = int(row.max()) + 1, int(column.max()) + 1
    return torch.from_numpy(row * columns + column), rows, columns


def layers_of_tokens(survivors: list[Tensor]) -> Tensor:
    """How many layers process each visual token, [V]; tokens leave for good, so this is all there is to know."""
    live = torch.stack([layer[0].cpu() for layer in survivors])  # [L, V]
    if bool((live[1:] & ~live[:-1]).any()):
        raise InvalidInputError("A token came back after it had left; survivors of this scorer cannot be shown.")
    return live.sum(0)


def data_uri(image: Image.Image) -> str:
    """A small WebP, inline."""
    small = image.copy()
    small.thumbnail((SIDE, SIDE), Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    small.save(buffer, "WEBP", quality=_QUALITY, method=6)
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


def _sides(size: Any) -> dict[str, float]:
    return {key: float(value) for key, value in dict(size).items() if value is not None}
