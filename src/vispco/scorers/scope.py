"""SCOPE: tokens that the vision tower looks at and that cover what the others show.

"SCOPE: Saliency-Coverage Oriented Token Pruning for Efficient Multimodal LLMs" (NeurIPS 2025). Greedy facility location:
a token's gain is how much closer its choice brings all tokens to a chosen one, by the cosine of the features that the
projector reads, times its attention from the class token to the power of `alpha`.
Faithful: the gain. After the paper: attention is the mean over all patches in towers without a class token (SigLIP, Qwen).
"""

from __future__ import annotations

import torch

from vispco.cost.dimensions import Dimensions
from vispco.scorers.base import Scorer, Selection, VisionNeeds, register
from vispco.scorers.context import ScoringContext
from vispco.scorers.greedy import GONE, GreedyPicks, feature_cosine_flops, feature_cosines
from vispco.small_arrays import Numbers


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
        picks = GreedyPicks(context.live)
        table, weight, barred = picks.numbers(similar), picks.numbers(saliency), picks.barred()
        covered, closer = 0.0 * table[:, :1], picks.numbers(torch.empty_like(similar))  # one buffer for all picks

        def gains() -> Numbers:
            picks.library.subtract(table, covered, out=closer)
            return picks.library.clip(closer, 0, None, out=closer).sum(-1) * weight + barred

        def cover(_: int, picked: Numbers, __: Numbers) -> Numbers:
            nonlocal covered
            barred[picks.samples, picked] = GONE
            covered = picks.library.maximum(covered, table[picks.samples, picked])
            return gains()

        return picks.choose(context.counts, context.max_count, gains(), cover)

    def setup_flops(self, num_instruction: int, num_visual: int, dimensions: Dimensions) -> int:  # noqa: ARG002
        return feature_cosine_flops(num_visual, dimensions)
