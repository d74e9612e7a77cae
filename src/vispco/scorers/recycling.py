"""SparseVLM's token recycling: some of what is not kept lives on as means of groups.

Of the tokens that are not kept, the best-scored 30 % are grouped by density peaks around a tenth as many centres, and
each centre becomes the mean of its group. The original inserts the centres in addition to the k that it keeps; here k is
such that both together are the tokens that may stay, so that the budget holds. Each centre stands at the position of its own
token, because a mean has no position.
"""

import torch
from torch import Tensor

from vispco.ranking import ranks
from vispco.scorers.context import ScoringContext
from vispco.scorers.density_peaks import cluster

SHARE = 0.3
CENTRES = 0.1


def recycle(context: ScoringContext, scores: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """Survivors and centres (float [B, V], 1 for those), and which token is averaged into which (int64 [B, V]).

    counts: int64 [B], survivors and centres together.
    """
    live = context.live
    rest, centres = live.sum(-1) - counts, torch.zeros_like(counts)
    for _ in range(3):  # the centres depend on how many are left over, and the other way round; this settles at once
        left_over = rest + centres
        recycled = torch.where(rest > 0, (left_over * SHARE).long() + 1, 0).minimum(left_over)
        centres = ((recycled * CENTRES).long() + 1).minimum(counts).minimum(recycled)
    rank, first = ranks(scores, live), (counts - centres)[:, None]
    pool = (rank >= first) & (rank < first + recycled[:, None]) & live
    assert context.hidden is not None  # noqa: S101 - declared by needs_hidden
    is_centre, into = cluster(context.hidden, pool, centres)
    return (is_centre | (rank < first)).float(), into
