"""Gemma3n and Gemma4: the last layers use keys and values of earlier ones, and each layer has inputs of its own."""

from typing import Any

from torch import nn

from vispco.families.base import Family


class SharedKeys(Family):
    """A layer that shares takes the keys of the last layer of its kind that makes some."""

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
