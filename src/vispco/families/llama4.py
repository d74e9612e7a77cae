"""Llama 4: layers without rotary embedding scale their queries by how many tokens came before."""

from typing import Any

from torch import nn

from vispco.core.errors import UnsupportedModelError
from vispco.families.base import Family


class Llama4(Family):
    """That scale counts the tokens that a layer is handed, so it is exact as long as it has not begun to grow."""

    model_types = ("llama4",)

    def check_length(self, model: nn.Module, length: int) -> None:
        for layer in self.layers(model):
            attention: Any = self.attention(layer)
            tuned = getattr(attention, "attn_temperature_tuning", False) and not attention.use_rope
            if tuned and length >= attention.floor_scale:
                raise UnsupportedModelError(
                    f"A prompt of {length} tokens was given. From {int(attention.floor_scale)} tokens on this model scales "
                    "its queries by their place in the sequence, which changes when tokens are dropped. Give a shorter "
                    "prompt, or run the model without the pruner."
                )
