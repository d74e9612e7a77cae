"""Dynamic-LLaVA, its vision half: a small trained transformer rates the visual tokens at the entry of layer 2.

Huang et al., "Dynamic-LLaVA" (ICLR 2025). Faithful: where it looks (the states at the entry of layer 2); the predictor
(layer norm, projection to 512 channels or the model's own width if that is less, two transformer blocks without
positions, half of the channels replaced by their mean over tokens, an MLP to a keep and a drop logit); Gumbel-softmax in
training with a temperature from 1 to 0.1; top-k in inference; 100 (kept share - target)^2 beside the training loss.
After: the loss is the divergence from the unpruned model in place of the language-model loss, and the language model is
frozen where the paper trains both. Not here: the second predictor, which evicts the KV of generated text while decoding.

How many stay is what the schedule says (published: 20 % from layer 2 on). The rating is made once, at layer 2, and holds
for all deeper layers.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from vispco.core.schedule import Schedule
from vispco.cost.dimensions import Dimensions
from vispco.scorers.base import Selection, register
from vispco.scorers.context import ScoringContext
from vispco.scorers.learned.learned_scorer import LearnedScorer
from vispco.scorers.learned.network import LearnedNetwork, masked_mean

_WIDEST = 512
_RATE_WEIGHT = 100.0
_HOTTEST, _COLDEST = 1.0, 0.1


class _Block(nn.Module):
    """A transformer block over the live tokens."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm, self.ffn_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.ffn = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor, live: Tensor) -> Tensor:
        batch, count, width = x.shape
        q, k, v = self.qkv(self.norm(x)).view(batch, count, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        closed = torch.finfo(x.dtype).min  # finite: a sample without tokens has no NaN
        mask = torch.zeros(batch, 1, 1, count, dtype=x.dtype, device=x.device).masked_fill(~live[:, None, None], closed)
        seen = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, count, width))
        grown: Tensor = x + self.ffn(self.ffn_norm(x))
        return grown


class _TokenPredictor(LearnedNetwork):
    """States [B, V, D] -> logits [B, V, 2] of keeping and of dropping each token."""

    @classmethod
    def defaults(cls, hidden: int, num_layers: int) -> dict[str, Any]:  # noqa: ARG003
        return {"width": min(_WIDEST, hidden), "heads": 8, "blocks": 2}

    def build(self, *, width: int, heads: int, blocks: int) -> None:  # type: ignore[override]
        self.project = nn.Sequential(nn.LayerNorm(self.config.hidden), nn.Linear(self.config.hidden, width), nn.GELU())
        self.blocks = nn.ModuleList(_Block(width, heads) for _ in range(blocks))
        self.head = nn.Sequential(
            nn.Linear(width, width // 2),
            nn.GELU(),
            nn.Linear(width // 2, width // 4),
            nn.GELU(),
            nn.Linear(width // 4, 2),
        )

    def forward(self, hidden: Tensor, live: Tensor) -> Tensor:
        x = self.project(hidden)
        for block in self.blocks:
            x = block(x, live)
        own, shared = x.chunk(2, dim=-1)
        logits: Tensor = self.head(torch.cat([own, masked_mean(shared, live)[:, None].expand_as(shared)], dim=-1))
        return logits


@register
class DynamicLLaVA(LearnedScorer):
    """A trained rating at the entry of layer 2."""

    name = "dynamic-llava"
    needs_attention = False
    needs_hidden = True
    network_class = _TokenPredictor
    default_target = 0.2
    LAYER = 2

    @property
    def earliest_layer(self) -> int:
        return self.LAYER

    @property
    def decides_count(self) -> bool:  # type: ignore[override]
        return self.is_training  # a sampled number; in inference the schedule's

    @property
    def rates(self) -> bool:
        return not self.is_training

    def acts_at(self, layer: int) -> bool:
        return layer == self.LAYER

    def score(self, context: ScoringContext) -> Tensor:
        """Log-odds of keeping, from the first layer at which it was asked in this prefill."""
        kept, dropped = context.once(self.name, lambda: self._logits(context)).unbind(-1)
        return kept - dropped

    def select(self, context: ScoringContext) -> Selection:
        if not self.is_training:
            return super().select(context)
        logits = self._logits(context)
        heat = _HOTTEST + (_COLDEST - _HOTTEST) * self._progress
        soft = functional.gumbel_softmax(logits, tau=heat, dim=-1)[..., 0]
        return self.selected(context, soft > 0.5, soft, soft)

    def penalty(self, target: float) -> Tensor:
        rate = torch.stack([choice.kept.mean() for choice in self.choices]).mean()
        return _RATE_WEIGHT * (rate - target).square()

    def deployed_schedule(self, num_layers: int, target: float) -> Schedule:
        return Schedule.single(self.LAYER, target, num_layers)

    def setup_flops(self, num_instruction: int, num_visual: int, dimensions: Dimensions) -> int:  # noqa: ARG002
        options = (
            _TokenPredictor.defaults(dimensions.hidden, 0) if self._network is None else self.network.config.options
        )
        width, blocks = int(options["width"]), int(options["blocks"])
        linear = dimensions.hidden * width + blocks * 12 * width**2 + width**2 // 2 + width**2 // 8 + width // 2
        return 2 * num_visual * linear + blocks * 4 * num_visual**2 * width

    def _logits(self, context: ScoringContext) -> Tensor:
        states = self.states(context)
        logits: Tensor = self.network(states, context.live.to(states.device))
        return logits.to(context.live.device)
