"""ATP-LLaVA: two thresholds for each sample, one on attention and one on a grid, from a small trained MLP.

Ye et al., "ATP-LLaVA" (CVPR 2025). There is no official code; this follows the description of it and claims no parity.
Faithful to that: modules behind the layers 4, 14 and 24 of 32, elsewhere at the same depths; a redundancy score, half
from visual and half from text rows; a spatial score from uniform sampling, 1 - 3 R_s at rate R_s; two thresholds for
each sample, from an MLP on mean scores; sigmoid masks at temperature 10 in training, joined by the maximum; a token
stays if it is above either threshold; the terms 0.05 * sum(kept share * layer) and 0.2 * |mean kept share - target|
beside the training loss; original positions.
After: the visual half is the logarithm of the attention that a token receives in place of the mean logit, and both
halves are scaled to [0, 1] over the live tokens, so that a threshold means the same in every layer; the sampling rates
are those of the strides 2, 3 and 4 of the token grid, and a token takes its best; the forward pass is hard, with the
sigmoid's gradient straight through it; the loss is the divergence from the unpruned model, which is frozen; a controller
shifts all thresholds alike until the modules keep the target on average, which the term with the target alone does not
bring about. Not here: the two-dimensional rotary embedding, which changes the model.
"""

from typing import Any

import torch
from torch import Tensor, nn

from vispco.cost.dimensions import Dimensions
from vispco.scorers.base import Selection, register, top_tokens
from vispco.scorers.context import ScoringContext
from vispco.scorers.learned.learned_scorer import LearnedScorer
from vispco.scorers.learned.network import LearnedNetwork, masked_mean

_BEHIND, _OF = (4, 14, 24), 32
_STRIDES = (2, 3, 4)
_SHARPNESS = 10.0
_DEPTH_WEIGHT, _TARGET_WEIGHT = 0.05, 0.2
# of the controller: change of the thresholds' logits for a share that is off by 1; the largest
_NUDGE, _STEEPEST = (1.0, 0.25)


class _ThresholdNetwork(LearnedNetwork):
    """Mean scores [B, 3] of a layer -> two thresholds in (0, 1), [B, 2]. The controller's shift is a buffer of it."""

    shift: Tensor

    @classmethod
    def defaults(cls, hidden: int, num_layers: int) -> dict[str, Any]:  # noqa: ARG003
        entries = sorted({min(behind * num_layers // _OF + 1, num_layers - 1) for behind in _BEHIND})
        return {"layers": entries, "width": 32}

    def build(self, *, layers: list[int], width: int) -> None:  # type: ignore[override]
        self.heads = nn.ModuleDict(
            {str(layer): nn.Sequential(nn.Linear(3, width), nn.GELU(), nn.Linear(width, 2)) for layer in layers}
        )
        self.register_buffer("shift", torch.zeros(()))

    def forward(self, means: Tensor, layer: int) -> Tensor:
        thresholds: Tensor = (self.heads[str(layer)](means) + self.shift).sigmoid()
        return thresholds


@register
class ATPLLaVA(LearnedScorer):
    """Keeps what is above one of two thresholds of the sample."""

    name = "atp-llava"
    decides_count = True
    network_class = _ThresholdNetwork
    default_target = 0.25

    def acts_at(self, layer: int) -> bool:
        return self._network is not None and layer in self.network.config.options["layers"]

    def select(self, context: ScoringContext) -> Selection:
        if not self.acts_at(context.layer):  # a schedule drops here by itself: by the last margin that there was
            margin = context.memo.get(self.name)
            score = self._redundancy(context)[0] if margin is None else margin
            return Selection(top_tokens(score, context.live, context.counts), score)
        redundancy, parts = self._redundancy(context)
        spatial = _spatial_scores(context).to(redundancy.device)
        means = masked_mean(torch.stack([*parts, spatial], dim=-1), context.live)
        threshold = self.network(means.to(self.network.device), context.layer).to(redundancy.device)
        above = torch.stack([redundancy, spatial], dim=-1) - threshold[:, None]
        soft = (_SHARPNESS * above).sigmoid().amax(-1)
        margin = above.detach().amax(-1)
        context.memo[self.name] = torch.where(context.live, margin, context.memo.get(self.name, margin))
        return self.selected(context, (above > 0).any(-1), above.amax(-1), soft)

    def penalty(self, target: float) -> Tensor:
        kept = torch.stack([choice.kept.mean() for choice in self.choices])
        depth = torch.tensor([float(choice.layer) for choice in self.choices], device=kept.device)
        return _DEPTH_WEIGHT * (kept * depth).sum() + _TARGET_WEIGHT * (kept.mean() - target).abs()

    def reached(self, share: Tensor, kept: Tensor) -> Tensor:  # noqa: ARG002
        """The mean share that its modules keep."""
        return kept[:, self.network.config.options["layers"]].mean(-1)

    def adjust(self, reached: float, target: float, gain: float = 1.0) -> bool:
        """The controller: higher thresholds keep fewer."""
        self.network.shift += gain * max(-_STEEPEST, min(_STEEPEST, _NUDGE * (reached - target)))
        return True

    def attention_rows(self, num_instruction: int, num_live: int) -> int:
        return num_instruction + num_live

    def choice_flops(self, num_tokens: int, num_visual: int, dimensions: Dimensions) -> int:  # noqa: ARG002
        width = 0 if self._network is None else int(self.network.config.options["width"])
        return 2 * (3 + 2) * width  # the MLP

    def _redundancy(self, context: ScoringContext) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """(score, (its visual half, its text half)), all [B, V] in [0, 1]; attention has no gradient here."""
        with torch.no_grad():
            own = context.attention("visual").clamp_min(torch.finfo(torch.float32).tiny).log()
            parts = _unit_scaled(own, context.live), _unit_scaled(context.attention("text"), context.live)
        return (parts[0] + parts[1]) / 2, parts


def _unit_scaled(values: Tensor, live: Tensor) -> Tensor:
    """[B, V] -> least 0 and greatest 1 among the live tokens of each sample, 0 elsewhere; all 0 where all are equal."""
    least = values.masked_fill(~live, torch.inf).amin(-1, keepdim=True)
    most = values.masked_fill(~live, -torch.inf).amax(-1, keepdim=True)
    spread = (most - least).clamp_min(torch.finfo(torch.float32).tiny)
    return ((values - least) / spread).masked_fill(~live, 0.0)


def _spatial_scores(context: ScoringContext) -> Tensor:
    """1 - 3 R_s of the lowest rate at which uniform sampling takes a token, 0 where none does: float [B, V].

    On the token grid where it is known, else along the sequence of visual tokens with the same rates.
    """
    layout = context.layout
    places = layout.coordinates
    if places is None:
        slots = torch.arange(context.live.shape[1], device=context.live.device).expand_as(context.live)
        taken = [slots % stride**2 == 0 for stride in _STRIDES]
    else:
        taken = [(places[..., 1:] % stride == stride // 2).all(-1) for stride in _STRIDES]
    scores = torch.zeros(context.live.shape, device=context.live.device)
    for stride, sampled in zip(_STRIDES, taken, strict=True):
        scores = torch.where(sampled.to(scores.device), max(1 - 3 / stride**2, 0.0), scores)
    return scores
