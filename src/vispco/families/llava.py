"""LLaVA-1.5 and its kin, InternVL, Idefics3 and SmolVLM: pictures as squares of a fixed size, one or several of them."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from vispco.core.errors import InvalidInputError
from vispco.core.indexing import runs_of
from vispco.core.layout import TokenLayout
from vispco.core.pixels import shrunk_side
from vispco.families.family import Family, ImageSizes
from vispco.families.tower_family import TowerFamily, square_pictures


class Llava(TowerFamily):
    """CLIP patches without the class token."""

    model_types = ("llava",)
    first_class = ("llava",)
    has_class_token = True
    interpolates = True

    def image_sizes(self, model: nn.Module, inputs: Mapping[str, Any], pixels: float = 1.0) -> ImageSizes | None:
        config: Any = self.base(model).config
        side = shrunk_side(config.vision_config.image_size // config.vision_config.patch_size, pixels)
        number = self.num_pictures(inputs, side * side)
        return None if number is None else ((1, side, side),) * number

    def check_pixels(self, model: nn.Module, layout: TokenLayout) -> None:
        if layout.has_visual and layout.image_sizes is None:
            config: Any = self.base(model).config
            side = shrunk_side(config.vision_config.image_size // config.vision_config.patch_size, layout.pixels)
            raise InvalidInputError(
                f"Pictures of {sum(layout.num_visual)} visual tokens came, but this pruner was made for pictures with "
                f"{layout.pixels:g} of their pixels, {side} x {side} tokens each. Read them with the processor that "
                "pruner.prepare(processor) gives."
            )

    def pool_patches(self, model: nn.Module, values: Tensor, call: Mapping[str, Any]) -> Tensor:
        config: Any = self.base(model).config
        side = int(call["pixel_values"].shape[-1]) // int(config.vision_config.patch_size)
        return values[:, -side * side :].flatten(0, 1)  # without the class token, if it is there


class LlavaVariants(Family):
    """LLaVA-NeXT and its kin: tiles with newline tokens, whose grid is not a rectangle. Frames of videos are squares."""

    model_types = ("llava_next", "llava_onevision", "llava_next_video")

    def image_sizes(self, model: nn.Module, inputs: Mapping[str, Any]) -> ImageSizes | None:
        """Sizes of videos alone, from the runs of their placeholders. A newline at the end of a video is a cell of its own."""
        config: Any = self.base(model).config
        ids, video = inputs.get("input_ids"), getattr(config, "video_token_id", None)
        if ids is None or video is None or bool((ids == config.image_token_id).any()):
            return None
        side = config.vision_config.image_size // config.vision_config.patch_size
        stride = getattr(config, "spatial_pool_stride", None)
        side = -(-side // 2) if stride is None else side // stride
        sizes: list[tuple[int, int, int]] = []
        for _, start, end in runs_of((ids == video).cpu().numpy()):
            frames, newlines = divmod(end - start, side * side)
            if newlines > 1 or (newlines and stride is not None):
                return None
            sizes += [(frames, side, side)] + [(1, 1, 1)] * newlines
        return tuple(sizes)


class InternVL(Family):
    """Tiles of a fixed square each, after pixel shuffle."""

    model_types = ("internvl",)

    def image_sizes(self, model: nn.Module, inputs: Mapping[str, Any]) -> ImageSizes | None:
        config: Any = self.base(model).config
        return square_pictures(self, inputs, config.image_seq_length)


class Idefics(Family):
    """Idefics3 and SmolVLM: tiles of a fixed square each, after pixel shuffle. The language model is called `text_model`."""

    model_types = ("idefics3", "smolvlm")

    def image_sizes(self, model: nn.Module, inputs: Mapping[str, Any]) -> ImageSizes | None:
        """Sizes from runs of placeholders, each a tile between marks: empty tiles come with the pixels, too."""
        config: Any = self.base(model).config
        side = config.vision_config.image_size // config.vision_config.patch_size // config.scale_factor
        runs = self.visual_runs(model, inputs)
        return ((1, side, side),) * len(runs) if all(end - start == side * side for _, start, end in runs) else None
