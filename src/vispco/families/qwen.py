"""Qwen2-VL and Qwen2.5-VL: native resolution, M-RoPE, images and videos."""

from collections.abc import Mapping
from typing import Any

from torch import nn

from vispco.families.base import Family, ImageSizes


class Qwen(Family):
    """The picture's grid comes with the inputs; the vision tower merges neighbouring patches."""

    model_types = ("qwen2_5_vl", "qwen2_vl")

    def image_sizes(self, model: nn.Module, inputs: Mapping[str, Any]) -> ImageSizes | None:
        config: Any = self.base(model).config
        merge = config.vision_config.spatial_merge_size
        images, videos = inputs.get("image_grid_thw"), inputs.get("video_grid_thw")
        if images is not None and videos is not None:
            return None  # their order in the text is not known here
        grids = images if images is not None else videos
        return None if grids is None else tuple((t, h // merge, w // merge) for t, h, w in grids.tolist())
