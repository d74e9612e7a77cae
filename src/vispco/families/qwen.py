"""Qwen2-VL, Qwen2.5-VL and Qwen3-VL: native resolution, M-RoPE, images and videos."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from transformers.vision_utils import get_vision_window_index

from vispco.families.family import Family, ImageSizes


class Qwen(Family):
    """The picture's grid comes with the inputs; the vision tower merges neighbouring patches."""

    model_types: ClassVar[tuple[str, ...]] = ("qwen2_5_vl", "qwen2_vl")
    first_class: ClassVar[tuple[str, ...]] = ("qwen2_5_vl",)
    frames_apart: ClassVar[bool] = False
    """Whether text stands between the temporal patches of a video, so that each is a picture of its own."""

    def image_sizes(self, model: nn.Module, inputs: Mapping[str, Any]) -> ImageSizes | None:
        config: Any = self.base(model).config
        merge = config.vision_config.spatial_merge_size
        images, videos = inputs.get("image_grid_thw"), inputs.get("video_grid_thw")
        if images is None and videos is None:
            return self._sizes_of_positions(model, inputs)
        grids = [[] if each is None else each.tolist() for each in (images, videos)]
        if self.frames_apart:
            grids[1] = [[1, h, w] for t, h, w in grids[1] for _ in range(t)]
        order = [kind for kind, each in enumerate(grids) for _ in each]
        if all(grids):  # in the order of their placeholders
            ids = self.given(inputs).cpu().numpy()
            runs = self.visual_runs(model, inputs)
            order = [int(ids[row, start] != config.image_token_id) for row, start, _ in runs]
        kinds = [iter(each) for each in grids]
        found = [next(kinds[kind], (0, 0, 0)) for kind in order]
        return tuple((t, h // merge, w // merge) for t, h, w in found)

    def _sizes_of_positions(self, model: nn.Module, inputs: Mapping[str, Any]) -> ImageSizes | None:
        """The grids as M-RoPE has them: `generate()` hands positions on, but neither pixels nor grids."""
        ids, positions = inputs.get("input_ids"), inputs.get("position_ids")
        if ids is None or positions is None or positions.dim() != 3 or positions.shape[-1] != ids.shape[1]:
            return None
        down, across = positions[-2:].expand(-1, len(ids), -1).cpu().numpy()
        sizes = []
        for row, start, end in self.visual_runs(model, inputs):
            rows, columns = (int(np.ptp(axis[row, start:end])) + 1 for axis in (down, across))
            frames, rest = divmod(end - start, rows * columns)
            if rest:
                return None
            sizes.append((frames, rows, columns))
        return tuple(sizes)

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


class Qwen3(Qwen):
    """Times are written between the frames of a video; features of lower blocks are added after the first layers."""

    model_types = ("qwen3_vl",)
    first_class = ("qwen3_vl",)
    frames_apart = True
