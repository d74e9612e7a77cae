"""SCOPE: tokens that the vision tower looks at and that cover what the others show.

"SCOPE: Saliency-Coverage Oriented Token Pruning for Efficient Multimodal LLMs" (NeurIPS 2025). Greedy facility location:
a token's gain is how much closer its choice brings all tokens to a chosen one, by the cosine of the features that the
projector reads, times its attention from the class token to the power of `alpha`.
Faithful: the gain. After the paper: attention is the mean over all patches in towers without a class token (SigLIP, Qwen).
"""

from __future__ import annotations

import torch
from torch import Tensor

from vispco.scorers.base import Scorer, Selection, VisionNeeds, register
from vispco.scorers.context import ScoringContext
from vispco.scorers.greedy import feature_cosines, pick_greedily, row_of


@register
class Scope(Scorer):
    """Saliency times coverage. alpha: the power of the saliency; 0 is coverage alone."""

    name = "scope"
    needs_attention = False
    needs_vision = VisionNeeds(features=True, attention=(-1,))

    def __init__(self, *, alpha: float = 1.0) -> None:
        self.alpha = alpha

    def select(self, context: ScoringContext) -> Selection:
        assert context.vision is not None  # noqa: S101 - declared by needs_vision
        saliency = context.vision.attention[-1].float() ** self.alpha
        similar = feature_cosines(context).masked_fill(~context.live[:, None], 0)  # [B, choice, covered]
        covered, closer = torch.zeros_like(saliency), torch.empty_like(similar)  # one buffer for all picks

        def gains() -> Tensor:
            return torch.sub(similar, covered[:, None], out=closer).clamp_(min=0).sum(-1) * saliency

        def cover(_: int, picked: Tensor, __: Tensor) -> Tensor:
            nonlocal covered
            covered = torch.maximum(covered, row_of(similar, picked))
            return gains()

        return pick_greedily(context.live, context.counts, context.max_count, gains(), cover)
