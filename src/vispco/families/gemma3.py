"""Gemma3: image tokens see each other in both directions, and most layers have a sliding window.

Both are in the masks that the model makes, which the engine cuts to the tokens that are left, so nothing of it is
repeated here.
"""

from collections.abc import Mapping
from typing import Any

from torch import nn

from vispco.families.base import Family, ImageSizes, square


class Gemma3(Family):
    """SigLIP patches, pooled to a fixed square."""

    model_types = ("gemma3",)

    def image_sizes(self, model: nn.Module, inputs: Mapping[str, Any]) -> ImageSizes | None:
        pixels = inputs.get("pixel_values")
        config: Any = self.base(model).config
        grid = square(config.mm_tokens_per_image)
        return None if pixels is None or grid is None else (grid,) * pixels.shape[0]
