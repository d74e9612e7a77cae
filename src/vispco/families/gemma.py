"""Gemma3, Gemma3n and Gemma4.

In Gemma3 image tokens see each other in both directions, and most layers have a sliding window. Both are in the masks that
the model makes, which the engine cuts to the tokens that are left, so nothing of it is repeated here. In Gemma3n and Gemma4
the last layers use keys and values of earlier ones, and each layer has inputs of its own.
"""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn
from torch.nn import functional

from vispco.families.family import Family, ImageSizes
from vispco.families.tower_family import TowerFamily, square_pictures


class Gemma3(TowerFamily):
    """SigLIP patches, pooled to a fixed square."""

    model_types = ("gemma3",)
    first_class = ("gemma3",)

    def image_sizes(self, model: nn.Module, inputs: Mapping[str, Any]) -> ImageSizes | None:
        config: Any = self.base(model).config
        return square_pictures(self, inputs, config.mm_tokens_per_image)

    def pool_patches(self, model: nn.Module, values: Tensor, call: Mapping[str, Any]) -> Tensor:  # noqa: ARG002
        config: Any = self.base(model).config
        side, tokens = round(values.shape[1] ** 0.5), round(config.mm_tokens_per_image**0.5)
        grid = values.transpose(1, 2).reshape(len(values), -1, side, side)
        pooled = functional.avg_pool2d(grid.float(), side // tokens)  # [I, D, tokens, tokens]
        return pooled.flatten(2).transpose(1, 2).flatten(0, 1).to(values.dtype)


class SharedKeys(Family):
    """Gemma3n and Gemma4: a layer without keys of its own uses those of the last layer of its kind that has some."""

    model_types = ("gemma3n", "gemma4", "gemma4_unified")

    def key_sources(self, model: nn.Module) -> dict[int, int]:
        kinds = self.layer_kinds(model)
        last: dict[str, int] = {}
        sources: dict[int, int] = {}
        for index, layer in enumerate(self.layers(model)):
            attention: Any = self.attention(layer)
            if getattr(attention, "is_kv_shared_layer", False):
                sources[index] = last[kinds[index]]
            else:
                last[kinds[index]] = index
        return sources
