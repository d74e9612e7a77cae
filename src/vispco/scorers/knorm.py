"""K-norm: the tokens with the smallest keys.

After ViTCoP (AAAI 2026). The score of a token is minus the Euclidean length of its key in the layer before, averaged over
heads; the tokens with the largest keys leave. No attention map is read, and no matrices are multiplied.
Faithful: the rule by which ViTCoP ranks. Not faithful: ViTCoP ranks inside clusters, at two fixed layers; here it is all visual
tokens, at the layers of the schedule.
"""

from torch import Tensor

from vispco.scorers.base import Scorer, register
from vispco.scorers.context import ScoringContext


@register
class KNorm(Scorer):
    """Small keys stay. Rotary embeddings turn all heads alike, so positions do not change the length of the mean."""

    name = "knorm"

    def score(self, context: ScoringContext) -> Tensor:
        mean = context.keys("visual").float().mean(dim=2)  # [B, V, d]
        score: Tensor = -mean.norm(dim=-1)
        return score
