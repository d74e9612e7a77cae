"""Visual tokens that a picture becomes, by its size in pixels and the model's config."""

import math
from collections.abc import Mapping
from typing import Any

from vispco.core.errors import InvalidInputError, UnsupportedModelError

_PIXELS = {  # the least and the most of the published processors
    "qwen2_vl": (3136, 12_845_056),
    "qwen2_5_vl": (3136, 12_845_056),
    "qwen3_vl": (65_536, 16_777_216),
}
_LONGEST = 200  # times as long as wide: Qwen's processor refuses more


def visual_tokens(config: Any, width: int, height: int, preprocessor: Mapping[str, Any] | None = None) -> int:
    """The number of visual tokens that the model's image processor makes of a picture, by its size in pixels."""
    rows, columns, more = visual_grid(config, width, height, preprocessor)
    return rows * columns + more


def visual_grid(
    config: Any, width: int, height: int, preprocessor: Mapping[str, Any] | None = None
) -> tuple[int, int, int]:
    """Rows and columns of visual tokens that the model's image processor makes of a picture, and the tokens beside them.

    preprocessor: what the model's preprocessor_config.json says; where it is not given, the published values are taken.
    """
    if width < 1 or height < 1:
        raise InvalidInputError(f"An image of {width} × {height} pixels was given. Give sides of 1 or more.")
    kind = config.model_type
    if kind in _PIXELS:
        return *_of_many_sizes(config.vision_config, width, height, preprocessor or {}, _PIXELS[kind]), 0
    if kind == "llava":
        vision = config.vision_config
        side = int(vision.image_size // vision.patch_size)
        return side, side, int(config.vision_feature_select_strategy == "full")
    if kind == "gemma3":
        side = round(config.mm_tokens_per_image**0.5)
        return side, side, int(config.mm_tokens_per_image) - side * side
    raise UnsupportedModelError(
        f"How many visual tokens a picture becomes is not known for models of type {kind!r}. Give the number itself."
    )


def _of_many_sizes(
    vision: Any, width: int, height: int, preprocessor: Mapping[str, Any], published: tuple[int, int]
) -> tuple[int, int]:
    """Sides are rounded to whole tokens, then scaled together into the processor's range of pixels."""
    if max(width, height) > _LONGEST * min(width, height):
        raise InvalidInputError(f"{width} × {height} pixels: one side may be {_LONGEST} times the other at most.")
    size = preprocessor.get("size") or {}
    least = preprocessor.get("min_pixels") or size.get("shortest_edge") or published[0]
    most = preprocessor.get("max_pixels") or size.get("longest_edge") or published[1]
    unit = vision.patch_size * vision.spatial_merge_size
    rows, columns = (max(1, round(side / unit)) for side in (height, width))
    if rows * columns * unit**2 > most:
        scale = math.sqrt(height * width / most)
        rows, columns = (max(1, math.floor(side / scale / unit)) for side in (height, width))
    elif rows * columns * unit**2 < least:
        scale = math.sqrt(least / (height * width))
        rows, columns = (math.ceil(side * scale / unit) for side in (height, width))
    return int(rows), int(columns)
