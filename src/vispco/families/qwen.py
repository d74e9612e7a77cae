"""Qwen2-VL and Qwen2.5-VL: native resolution, M-RoPE, images and videos."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from transformers.vision_utils import get_vision_window_index

from vispco.families.base import Family, ImageSizes


class Qwen(Family):
    """The picture's grid comes with the inputs; the vision tower merges neighbouring patches."""

    model_types = ("qwen2_5_vl", "qwen2_vl")
    first_class = ("qwen2_5_vl",)

    def image_sizes(self, model: nn.Module, inputs: Mapping[str, Any]) -> ImageSizes | None:
        config: Any = self.base(model).config
        merge = config.vision_config.spatial_merge_size
        images, videos = inputs.get("image_grid_thw"), inputs.get("video_grid_thw")
        if images is not None and videos is not None:
            return None  # their order in the text is not known here
        grids = images if images is not None else videos
        return None if grids is None else tuple((t, h // merge, w // merge) for t, h, w in grids.tolist())

    def vision_tower(self, model: nn.Module) -> nn.Module:
        tower: Any = self.base(model).visual
        return tower  # type: ignore[no-any-return]

    def vision_projector(self, model: nn.Module) -> nn.Module:
        tower: Any = self.vision_tower(model)
        return tower.merger  # type: ignore[no-any-return]

    def vision_attentions(self, model: nn.Module) -> list[nn.Module]:
        tower: Any = self.vision_tower(model)
        return [block.attn for block in tower.blocks]

    def whole_picture_blocks(self, model: nn.Module) -> list[int]:
        tower: Any = self.vision_tower(model)
        return list(getattr(tower, "fullatt_block_indexes", range(len(tower.blocks))))

    def pool_patches(self, model: nn.Module, values: Tensor, call: Mapping[str, Any]) -> Tensor:
        tower: Any = self.vision_tower(model)
        flat = values.reshape(-1, values.shape[-1])  # the tower runs all pictures as one row of patches
        tokens = flat.view(-1, tower.spatial_merge_size**2, values.shape[-1]).mean(1)
        if not hasattr(tower, "window_size"):
            return tokens
        order, _ = get_vision_window_index(  # Qwen2.5-VL sorts its patches by window
            call["grid_thw"], tower.spatial_merge_size, tower.window_size, tower.patch_size
        )
        return tokens[torch.argsort(torch.as_tensor(order, device=tokens.device))]
