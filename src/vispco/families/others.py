"""Models with one peculiarity each: Granite 4 Vision, Kosmos-2 and 2.5, Llama 4."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from vispco.core.errors import UnsupportedModelError
from vispco.families.family import Family


class Granite4Vision(Family):
    """Granite 4 Vision: visual tokens enter as zeros, and all of their features are added between the first layers."""

    model_types = ("granite4_vision",)
    injection_inputs = ("vision_mask", "deepstack_features")

    def injections(self, arguments: Mapping[str, Any]) -> tuple[Tensor, dict[int, Tensor]] | None:
        where, what = (arguments.get(name) for name in self.injection_inputs)
        return None if where is None or what is None else (where[..., 0], dict(what))


class Kosmos(Family):
    """Kosmos-2 and 2.5: the config names no placeholder, and a mask among the inputs says where pictures are."""

    model_types = ("kosmos-2", "kosmos-2.5")
    text_model_names = ("text_model",)

    def base(self, model: nn.Module) -> nn.Module:
        """`generate` calls the language model itself, with the picture's features."""
        inner = getattr(model, "text_model", model)
        return inner if isinstance(inner, nn.Module) else model

    def text_model(self, model: nn.Module) -> nn.Module:
        return self._part(self.base(model), "model")

    def has_pictures(self, inputs: Mapping[str, Any]) -> bool:
        cache = inputs.get("past_key_values")
        continues = cache is not None and int(cache.get_seq_length()) > 0
        return inputs.get("image_embeds_position_mask") is not None and not continues

    def visual_token_ids(self, model: nn.Module) -> tuple[int, ...]:  # noqa: ARG002
        return ()

    def find_visual(self, model: nn.Module, inputs: Mapping[str, Any]) -> Tensor:  # noqa: ARG002
        mask: Tensor = inputs["image_embeds_position_mask"]
        return mask.to(torch.bool)


class Llama4(Family):
    """Llama 4: some layers scale queries by their place among the tokens that they are handed, from a certain length on."""

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
