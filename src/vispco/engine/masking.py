"""Passes that mask: every token is computed, and none attends to a dropped one. For search, not for speed."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from vispco.engine.attention import Attended, AttentionCall, attend_masked
from vispco.engine.compensation import with_bias
from vispco.engine.gather import spread
from vispco.engine.passes import PruningPass
from vispco.scorers.base import Selection

Relaxation = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""(scores [B, V], live [B, V], keep [B, V], retention [B]) -> mask [B, V]: `keep` in value, with a gradient of its own."""


@dataclass(eq=False)
class MaskPass(PruningPass):
    """Dropped tokens are still computed, but no other token attends to them."""

    relaxation: Relaxation | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.mask: Tensor | None = None  # float [B, V], the product of all choices so far
        self.bias: Tensor | None = None  # float [B, N], what text adds to its logits

    def attend(self, layer: int, call: AttentionCall) -> Attended:
        call = self.compensated(call)
        if self.choices.read[layer]:
            self.listen(call)
        if self.mask is None:
            return call.run()
        gone = self.layout.gone
        keys = torch.ones(self.layout.visual.shape, device=call.query.device)
        keys = keys if gone is None else keys.masked_fill(gone.to(keys.device), 0.0)
        return attend_masked(call, spread(self.mask.to(keys.device), self.layout.visual_index.to(keys.device), keys))

    def compensated(self, call: AttentionCall) -> AttentionCall:
        if self.bias is None:
            return call
        mask, length = call.mask, self.layout.length
        if mask is None:
            ones = torch.ones(1, 1, length, length, dtype=torch.bool, device=call.query.device)
            mask = ones.tril_() if call.is_causal else ones
        return replace(call, mask=with_bias(mask, self.bias, ~self.layout.visual, call.query.dtype))

    def _take_effect(self, layer: int, hidden: Tensor) -> Tensor:
        bias = self.bias_at(layer)
        if bias is not None:
            index = self.layout.visual_index
            self.bias = spread(bias, index, bias.new_zeros(self.layout.visual.shape))
        return hidden

    def hidden_keys(self, live: Tensor) -> Tensor | None:
        if self.mask is None or (live is self.layout.is_visual_slot and self.layout.gone is None):
            return None
        alive = spread(live, self.layout.visual_index, torch.zeros_like(self.layout.visual))
        dropped = self.layout.visual & ~alive
        return dropped if self.layout.gone is None else dropped | self.layout.gone

    def _apply(self, layer: int, selection: Selection) -> None:
        chosen = selection.keep.float() if selection.mask is None else selection.mask
        retention: Any = self.plan.retention
        if self.relaxation is not None and retention is not None:
            scores = chosen if selection.scores is None else selection.scores
            chosen = self.relaxation(scores, self.live, selection.keep, retention[:, layer])
        self.mask = chosen if self.mask is None else self.mask * chosen
