"""SparseVLM's token recycling: some of what is not kept lives on as means of groups.

Of the tokens that are not kept, the best-scored 30 % are grouped by density peaks around a tenth as many centres, and
each centre becomes the mean of its group. The original inserts the centres in addition; here they are among the
round(r N_v) that stay, so that the budget holds, and each stands at the position of its own token, because a mean has
no position.
"""

import torch
from torch import Tensor

from vispco.ranking import ranks
from vispco.scorers.context import ScoringContext
from vispco.scorers.density_peaks import cluster

SHARE = 0.3
CENTRES = 0.1


def recycle(context: ScoringContext, scores: Tensor) -> tuple[Tensor, Tensor]:
    """Survivors and centres (float [B, V], 1 for those), and which token is averaged into which (int64 [B, V])."""
    live, counts = context.live, context.counts
    rest = live.sum(-1) - counts
    recycled = torch.where(rest > 0, (rest * SHARE).long() + 1, 0).minimum(rest)
    centres = ((recycled * CENTRES).long() + 1).minimum(counts).minimum(recycled)
    rank, first = ranks(scores, live), (counts - centres)[:, None]
    pool = (rank >= first) & (rank < first + recycled[:, None]) & live
    assert context.hidden is not None  # noqa: S101 - declared by needs_hidden
    is_centre, into = cluster(context.hidden, pool, centres)
    return (is_centre | (rank < first)).float(), into
