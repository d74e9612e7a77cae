"""MADTP style: a threshold that a trained dictionary sets for each sample, and a controller towards a share of FLOPs.

Cao et al., "MADTP" (CVPR 2024), prunes the vision and text encoders of BLIP and CLIP; how it was ever run on a decoder
is not public. This is its threshold rule for the layers of a decoder, and no more than a style. From its code: the
importance of a token is the mean of the attention of one summarising token, the column mass of the head-wise maximum of
self-attention, and its greatest similarity to a dictionary of 100 entries, each of sum 1 over the tokens; an entry's
score is the mean importance of the tokens weighted by the softmax, over tokens, of its similarity to them, at a
temperature; the threshold is the least of these scores; it acts before every layer from 1 on; the temperature is not
trained but nudged towards the target FLOPs, up where a step took more.
After: the last instruction token stands for the class token; similarities are of normalised states, and their greatest
is made positive by a softmax over tokens; every sample keeps its own number, where the code keeps the batch's
greatest; a sample of which nothing is above the threshold keeps all. Not here: the text encoder, the alignment loss
between the modalities, and the merging of all dropped tokens into one.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn

from vispco.cost.dimensions import Dimensions
from vispco.scorers.base import Selection, register
from vispco.scorers.context import ScoringContext
from vispco.scorers.learned.learned_scorer import LearnedScorer
from vispco.scorers.learned.network import LearnedNetwork

_NUDGE = 1.0  # change of the logarithm of the temperature for a share that is off by 1
_STEEPEST = 0.25  # largest change of that logarithm in one step
_LOWEST, _HIGHEST = math.log(1e-3), math.log(1e3)
_SOFTNESS = 0.25  # width of the soft threshold, in units of the mean importance


class _Dictionary(LearnedNetwork):
    """States [B, V, D] -> similarities to the entries [B, V, K]; the temperature is a buffer of it."""

    log_temperature: Tensor

    @classmethod
    def defaults(cls, hidden: int, num_layers: int) -> dict[str, Any]:  # noqa: ARG003
        return {"entries": 100, "temperature": 0.5}

    def build(self, *, entries: int, temperature: float) -> None:  # type: ignore[override]
        self.norm = nn.LayerNorm(self.config.hidden, elementwise_affine=False)
        self.entries = nn.Parameter(torch.randn(entries, self.config.hidden) * self.config.hidden**-0.5)
        self.register_buffer("log_temperature", torch.tensor(math.log(temperature)))

    def forward(self, hidden: Tensor) -> Tensor:
        similar: Tensor = self.norm(hidden) @ self.entries.T
        return similar


@register
class MADTP(LearnedScorer):
    """Keeps what is more important than the least of a dictionary's weighted means."""

    name = "madtp"
    needs_hidden = True
    decides_count = True
    network_class = _Dictionary
    default_target = 0.5

    def acts_at(self, layer: int) -> bool:
        return layer >= self.earliest_layer

    def select(self, context: ScoringContext) -> Selection:
        live, similar = context.live, self.network(self.states(context)).to(context.live.device)  # [B, V, K]
        lowest, tiny = torch.finfo(similar.dtype).min, torch.finfo(similar.dtype).tiny
        found = similar.amax(-1).masked_fill(~live, lowest).softmax(-1)
        with torch.no_grad():
            attention = context.attention("last"), context.attention("visual", heads="max")
        parts = [part.masked_fill(~live, 0.0) for part in (*attention, found)]
        # of sum 1
        importance = torch.stack([part / part.sum(-1, keepdim=True).clamp_min(tiny) for part in parts]).mean(0)
        heat = self.network.log_temperature.exp().to(similar.device)
        weights = (similar / heat).masked_fill(~live[..., None], lowest).softmax(1)
        threshold = (weights * importance[..., None]).sum(1).amin(-1, keepdim=True)  # the least of the entries' means
        above = (importance > threshold) & live
        wanted = above | ~above.any(-1, keepdim=True)
        soft = ((importance - threshold) * live.sum(-1, keepdim=True).clamp_min(1) / _SOFTNESS).sigmoid()
        return self.selected(context, wanted, importance, soft)

    def penalty(self, target: float) -> Tensor:  # noqa: ARG002
        return torch.zeros(())  # the controller is what holds the target

    def adjust(self, reached: float, target: float, gain: float = 1.0) -> bool:
        """The controller: a higher temperature flattens the weights, lifts the threshold and drops more."""
        change = gain * max(-_STEEPEST, min(_STEEPEST, _NUDGE * (reached - target)))
        heat = self.network.log_temperature
        heat.copy_((heat + change).clamp(_LOWEST, _HIGHEST))
        return True

    def attention_rows(self, num_instruction: int, num_live: int) -> int:  # noqa: ARG002
        return 1 + num_live

    def choice_flops(self, num_tokens: int, num_visual: int, dimensions: Dimensions) -> int:  # noqa: ARG002
        entries = _Dictionary.defaults(0, 0)["entries"] if self._network is None else len(self.network.entries)
        return 2 * num_visual * dimensions.hidden * int(entries)
