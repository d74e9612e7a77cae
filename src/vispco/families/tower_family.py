"""`TowerFamily`: families whose vision tower is a row of encoder layers, and the grids of square pictures."""

from collections.abc import Mapping
from typing import Any

from torch import nn

from vispco.families.family import Family, ImageSizes


class TowerFamily(Family):
    """Families with a `vision_tower` of encoder layers (CLIP, SigLIP) and a `multi_modal_projector`."""

    def vision_tower(self, model: nn.Module) -> nn.Module:
        return self._part(self.base(model), "vision_tower")

    def vision_projector(self, model: nn.Module) -> nn.Module:
        return self._part(self.base(model), "multi_modal_projector")

    def vision_attentions(self, model: nn.Module) -> list[nn.Module]:
        tower: Any = self.vision_tower(model)
        inner = getattr(tower, "vision_model", tower)
        blocks = [layer.self_attn for layer in inner.encoder.layers]
        config: Any = self.base(model).config
        read = getattr(config, "vision_feature_layer", -1)  # an index of the hidden states: 0 is before the first block
        read = read if isinstance(read, list | tuple) else [read]
        return blocks[: max(index if index >= 0 else len(blocks) + 1 + index for index in read)]


def square_pictures(family: Family, inputs: Mapping[str, Any], tokens: int) -> ImageSizes | None:
    """The grids of square pictures of `tokens` tokens each; None if that is no square number, or their number is not known."""
    side, number = round(tokens**0.5), family.num_pictures(inputs, tokens)
    return None if number is None or side * side != tokens else ((1, side, side),) * number
