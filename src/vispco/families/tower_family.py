"""`TowerFamily`: families whose vision tower is a row of encoder layers, and the grid of a square picture."""

from typing import Any

from torch import nn

from vispco.families.family import Family


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


def square(tokens: int) -> tuple[int, int, int] | None:
    """The grid of a square picture by its number of tokens; None if that is not a square number."""
    side = round(tokens**0.5)
    return (1, side, side) if side * side == tokens else None
