"""Kosmos-2 and Kosmos-2.5: a mask among the inputs says where the picture's tokens are."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from vispco.families.base import Family


class Kosmos(Family):
    """No placeholder is named in the config; pictures are optional inputs of every step."""

    model_types = ("kosmos-2", "kosmos-2.5")
    text_model_names = ("text_model",)

    def base(self, model: nn.Module) -> nn.Module:
        """`generate` calls the language model itself, with the picture's features."""
        inner = getattr(model, "text_model", model)
        return inner if isinstance(inner, nn.Module) else model

    def text_model(self, model: nn.Module) -> nn.Module:
        return self._part(self.base(model), "model")

    def has_pictures(self, inputs: Mapping[str, Any]) -> bool:
        return inputs.get("image_embeds_position_mask") is not None and not self._continues(inputs)

    def visual_token_ids(self, model: nn.Module) -> tuple[int, ...]:  # noqa: ARG002
        return ()

    def find_visual(self, model: nn.Module, inputs: Mapping[str, Any]) -> Tensor:  # noqa: ARG002
        mask: Tensor = inputs["image_embeds_position_mask"]
        return mask.to(torch.bool)

    def _continues(self, inputs: Mapping[str, Any]) -> bool:
        cache = inputs.get("past_key_values")
        return cache is not None and int(cache.get_seq_length()) > 0
