"""Sizes that follow from a config: parameters of the model, and visual tokens of a picture."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vispco.core.errors import InvalidInputError, UnsupportedModelError
from vispco.timing.estimates.known_config import BYTES, KnownConfig
from vispco.timing.estimates.known_parameters import known_parameters

PIXELS = {  # the least and the most of the published processors
    "qwen2_vl": (3136, 12_845_056),
    "qwen2_5_vl": (3136, 12_845_056),
    "qwen3_vl": (65_536, 16_777_216),
}
DTYPES = BYTES
LONGEST = 200  # times as long as wide: Qwen's processor refuses more


@dataclass(frozen=True)
class ParameterCount:
    """All parameters, and those outside of the language model (vision tower and projector)."""

    parameters: int
    vision: int

    @property
    def language(self) -> int:
        return self.parameters - self.vision

    def weights(self, dtype: str) -> int:
        """Bytes of all parameters in a dtype."""
        return self.parameters * DTYPES[dtype]


def count_parameters(config: Any) -> ParameterCount:
    """Count the parameters of a config: by its sizes where its type is known.

    Otherwise, transformers builds the model on the meta device, without memory.
    """
    if isinstance(config, KnownConfig):
        return ParameterCount(*known_parameters(config))
    import torch  # noqa: PLC0415 - seconds, only for what is not known
    from transformers import AutoModelForImageTextToText  # noqa: PLC0415

    from vispco.families import family_of  # noqa: PLC0415

    with torch.device("meta"):
        model = AutoModelForImageTextToText.from_config(config)
    text = {id(p) for p in family_of(model).text_model(model).parameters()}
    head = model.get_output_embeddings()
    text |= {id(p) for p in head.parameters()} if head is not None else set()
    sizes = {id(p): p.numel() for p in model.parameters()}
    return ParameterCount(sum(sizes.values()), sum(size for key, size in sizes.items() if key not in text))


def visual_tokens(config: Any, width: int, height: int, preprocessor: Mapping[str, Any] | None = None) -> int:
    """How many visual tokens the model's image processor makes of a picture of this size in pixels.

    preprocessor: what the model's preprocessor_config.json says; where it is not given, the published values are taken.
    """
    if width < 1 or height < 1:
        raise InvalidInputError(f"An image of {width} × {height} pixels was given. Give sides of 1 or more.")
    kind = config.model_type
    if kind in PIXELS:
        return _of_many_sizes(config.vision_config, width, height, preprocessor or {}, PIXELS[kind])
    if kind == "llava":
        vision = config.vision_config
        full = config.vision_feature_select_strategy == "full"
        return int(vision.image_size // vision.patch_size) ** 2 + int(full)
    if kind == "gemma3":
        return int(config.mm_tokens_per_image)
    raise UnsupportedModelError(
        f"How many visual tokens a picture becomes is not known for models of type {kind!r}. Give the number itself."
    )


def _of_many_sizes(
    vision: Any, width: int, height: int, preprocessor: Mapping[str, Any], published: tuple[int, int]
) -> int:
    """Sides are rounded to whole tokens, then scaled together into the processor's range of pixels."""
    if max(width, height) > LONGEST * min(width, height):
        raise InvalidInputError(f"{width} × {height} pixels: one side may be {LONGEST} times the other at most.")
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
    return int(rows * columns)
