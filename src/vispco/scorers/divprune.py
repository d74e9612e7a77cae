"""DivPrune: the tokens that are farthest from one another.

Alvar et al., "DivPrune: Diversity-based Visual Token Pruning for Large Multimodal Models" (CVPR 2025). The max-min
diversity problem, solved greedily: the first token is the one farthest from its nearest neighbour, each next one the
farthest from all that were taken; distance is 1 - cosine of the projected tokens. No attention and no text.
Faithful: written from the paper. Not faithful: several pictures of a sample are one pool of tokens. As a later stage it
chooses again among the tokens that are left, by their projected states.
"""

import torch

from vispco.cost.dimensions import Dimensions
from vispco.scorers.base import Scorer, Selection, register
from vispco.scorers.context import ScoringContext
from vispco.scorers.greedy import GONE, GreedyPicks, embedding_cosines
from vispco.small_arrays import Numbers


@register
class DivPrune(Scorer):
    """Greedy max-min cosine distance."""

    name = "divprune"
    needs_attention = False

    def select(self, context: ScoringContext) -> Selection:
        live, picks = context.live, GreedyPicks(context.live)
        similar = embedding_cosines(context)
        itself = torch.eye(live.shape[1], dtype=torch.bool, device=live.device)
        nearest = similar.masked_fill(itself | ~live[:, None], -1.0).amax(-1)  # a token alone has no neighbour
        isolation = (-nearest).masked_fill(~live, GONE)
        # The distance is 1 - similar: a large one is a small cosine. None is smaller than to a token that is taken: itself.
        distance = picks.numbers((-similar).masked_fill_(itself, GONE))
        limit = picks.numbers(torch.full_like(isolation, -GONE).masked_fill_(~live, GONE))
        nearer = picks.library.fmin  # of two numbers of which one may be none

        def farthest(step: int, picked: Numbers, gains: Numbers) -> Numbers:
            return nearer(limit if step == 0 else gains, distance[picks.samples, picked][:, 0])

        return picks.choose(context.counts, context.max_count, picks.numbers(isolation), farthest)

    def setup_flops(self, num_instruction: int, num_visual: int, dimensions: Dimensions) -> int:  # noqa: ARG002
        return 2 * num_visual * num_visual * dimensions.hidden
