"""DivPrune: the tokens that are farthest from one another.

Alvar et al., "DivPrune: Diversity-based Visual Token Pruning for Large Multimodal Models" (CVPR 2025). The max-min
diversity problem, solved greedily: the first token is the one farthest from its nearest neighbour, each next one the
farthest from all that were taken; distance is 1 - cosine of the projected tokens. No attention and no text.
Faithful: written from the paper. Not faithful: several pictures of a sample are one pool of tokens. As a later stage it
chooses again among the tokens that are left, by their projected states.
"""

import torch
from torch import Tensor

from vispco.scorers.base import Scorer, Selection, register
from vispco.scorers.context import ScoringContext
from vispco.scorers.greedy import embedding_cosines, pick_greedily, row_of


@register
class DivPrune(Scorer):
    """Greedy max-min cosine distance."""

    name = "divprune"
    needs_attention = False

    def select(self, context: ScoringContext) -> Selection:
        similar = embedding_cosines(context)  # distance = 1 - similar, so that a large distance is a small cosine
        live = context.live
        itself = torch.eye(live.shape[1], dtype=torch.bool, device=live.device)
        isolation = -similar.masked_fill(itself | ~live[:, None], -torch.inf).amax(-1)

        def farthest(step: int, picked: Tensor, gains: Tensor) -> Tensor:
            distance = -row_of(similar, picked)
            return distance if step == 0 else torch.minimum(gains, distance)

        return pick_greedily(live, context.counts, context.max_count, isolation, farthest)

    def setup_flops(self, num_instruction: int, num_visual: int, hidden: int) -> int:  # noqa: ARG002
        return 2 * num_visual * num_visual * hidden
