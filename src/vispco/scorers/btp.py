"""BTP: attention and diversity, mixed by depth.

After Li et al., "Balanced Token Pruning" (NeurIPS 2025), whose code could not be read. Its objective at a stage is
balance * (attention that the kept tokens receive from text) + (1 - balance) * (diversity of the kept tokens), with a balance
that rises with depth. Here a set is built greedily: the token is added with the largest balance * attention (relative to the
largest) + (1 - balance) * distance to the nearest kept token (1 - cosine of hidden states).
Not here: the start on the picture's grid, the correction for late positions, and the search for the layers.
"""

import torch

from vispco.core.errors import InvalidInputError
from vispco.core.small_arrays import Numbers
from vispco.cost.dimensions import Dimensions
from vispco.scorers.base import Scorer, Selection, register
from vispco.scorers.context import ScoringContext
from vispco.scorers.greedy import GONE, GreedyPicks, cosines


@register
class BTP(Scorer):
    """A set that text attends to and that is diverse."""

    name = "btp"
    needs_hidden = True

    def __init__(self, balance: float = 0.5) -> None:
        if not 0.0 <= balance <= 1.0:
            raise InvalidInputError(f"balance={balance} was given to btp. 0 is diversity alone, 1 attention alone.")
        self.balance = balance

    def select(self, context: ScoringContext) -> Selection:
        live, similar = context.live, cosines(context.hidden)
        received = context.attention("text") * live
        wanted = self.balance * received / received.amax(-1, keepdim=True).clamp(min=1e-12)
        picks = GreedyPicks(live)
        distance, barred = picks.numbers(1 - similar), picks.barred()
        attended, nearest = picks.numbers(wanted), picks.numbers(torch.full(live.shape, 2.0, device=live.device))

        def add(_: int, picked: Numbers, __: Numbers) -> Numbers:
            nonlocal nearest  # no cosine distance is larger than 2
            barred[picks.samples, picked] = GONE
            nearest = picks.library.minimum(nearest, distance[picks.samples, picked][:, 0])
            return attended + (1 - self.balance) * nearest + barred

        return picks.choose(context.counts, context.max_count, attended + barred, add)

    def attention_rows(self, num_instruction: int, num_live: int) -> int:  # noqa: ARG002
        return num_instruction

    def choice_flops(self, num_tokens: int, num_visual: int, dimensions: Dimensions) -> int:  # noqa: ARG002
        return 2 * num_visual**2 * dimensions.hidden
