"""DivPrune: the tokens that are farthest from one another.

Alvar et al., "DivPrune: Diversity-based Visual Token Pruning for Large Multimodal Models" (CVPR 2025). The max-min
diversity problem, solved greedily: the first token is the one farthest from its nearest neighbour, each next one the
farthest from all that were taken; distance is 1 - cosine of the projected tokens. No attention and no text.
Faithful: written from the paper. Not faithful: several pictures of a sample are one pool of tokens. As a later stage it
chooses again among the tokens that are left, by their projected states. On a device several tokens are taken a step
(see `vispco.scorers.greedy`): a token whose nearest neighbour among the candidates is nearer than all that were taken counts
as that near, so one of two alike ones waits.
"""

import torch
from torch import Tensor

from vispco.core.small_arrays import Numbers
from vispco.cost.dimensions import Dimensions
from vispco.scorers.base import Scorer, Selection, register
from vispco.scorers.context import ScoringContext
from vispco.scorers.greedy import GONE, GreedyPicks, embedding_cosines

GROWTH = 0.5  # of a block, relative to the tokens that were taken


@register
class DivPrune(Scorer):
    """Greedy max-min cosine distance.

    exact: True is one token a step, False blocks of tokens; by default exact on the host, blocks on a device.
    """

    name = "divprune"
    needs_attention = False
    exact: bool | None = None

    def __init__(self, *, exact: bool | None = None) -> None:
        if exact is not None:
            self.exact = exact

    def select(self, context: ScoringContext) -> Selection:
        picks, dead = GreedyPicks(context.live, exact=self.exact), ~context.live[:, None]
        # The distance is 1 - similar: a large one is a small cosine. None is smaller than to a token that is taken: itself.
        below_zero = 0.0 if picks.exact else 2.0
        table = (-below_zero - embedding_cosines(context)).masked_fill_(dead, -GONE)  # the one table beside the cosines
        itself = table.diagonal(dim1=1, dim2=2)
        itself.fill_(-GONE)
        isolation = table.amin(-1).masked_fill_(dead[:, 0], GONE)  # a token alone has no neighbour
        table.masked_fill_(dead, GONE)
        itself.fill_(GONE)
        distance, nearer = picks.numbers(table), picks.library.fmin  # of two numbers of which one may be none

        def farthest(taken: int, picked: Numbers, gains: Numbers) -> Numbers:
            rows = distance[picks.samples, picked]
            nearest = rows[:, 0] if rows.shape[1] == 1 else rows.amin(1)
            return nearer(gains, nearest) if taken else nearest

        def beside_earlier(candidates: Tensor, gains: Tensor) -> Tensor:
            apart = picks.among(table, candidates).tril_(-1)  # 0 for those behind: all distances are negative
            return torch.fmin(gains[:, : candidates.shape[1]], apart.amin(-1))

        wanted, first = (context.counts, context.max_count), picks.numbers(isolation)
        if picks.exact:
            return picks.choose(*wanted, first, farthest)
        return picks.choose_blocks(*wanted, first, beside_earlier, farthest, growth=GROWTH)

    def setup_flops(self, num_instruction: int, num_visual: int, dimensions: Dimensions) -> int:  # noqa: ARG002
        return 2 * num_visual * num_visual * dimensions.hidden
