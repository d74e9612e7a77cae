"""Features that a model adds to visual tokens between its first layers (DeepStack), added by the engine instead.

The model adds them by a mask over the whole prompt, which fails once tokens are gone. So the engine takes them out of the call
of the language model and adds them at the entry of their layers, to the tokens that are left.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from vispco.core.indexing import take
from vispco.engine.gather import Stage


@dataclass(eq=False)
class Injections:
    """mask: bool [B, N], the tokens that get something. features: {layer: [T, D]}, one row a token of the mask, in order."""

    mask: Tensor
    features: Mapping[int, Tensor]
    _spread: dict[int, Tensor] = field(default_factory=dict)

    def add(self, layer: int, hidden: Tensor, stage: Stage | None) -> Tensor:
        """Hidden states [B, M, D] at the entry of a layer, with what is added there."""
        if layer not in self.features:
            return hidden
        if layer not in self._spread:
            self._spread[layer] = self._by_token(self.features[layer].to(hidden.device, hidden.dtype))
        added = self._spread.pop(layer)
        return hidden + (added if stage is None else take(added, stage.positions.to(added.device)))

    def _by_token(self, features: Tensor) -> Tensor:
        """[T, D] -> [B, N, D], zeros where nothing is added; without asking the device how many there are."""
        mask = self.mask.to(features.device)
        place = mask.flatten().cumsum(0).sub(1).clamp(min=0).view_as(mask)
        return torch.where(mask[..., None], features[place], features.new_zeros(()))
