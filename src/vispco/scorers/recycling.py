"""SparseVLM's token recycling: some of what is not kept lives on as means of groups.

Of the tokens that are not kept, the best-scored 30 % are grouped by density peaks around a tenth as many centres, and
each centre becomes the mean of its group. The original inserts the centres in addition to the k that it keeps; here k is
such that both together are the tokens that may stay, so that the budget holds. Each centre stands at the position of its own
token, because a mean has no position.

Density peaks: Rodriguez & Laio, "Clustering by fast search and find of density peaks" (Science 2014); Du et al. for the
k-nearest-neighbour density. A token is a centre if it is dense and far from anything denser; the others join the nearest
centre.
"""

import torch
from torch import Tensor

from vispco.scorers.base import ranks
from vispco.scorers.context import ScoringContext

NEIGHBOURS = 5
SHARE = 0.3
CENTRES = 0.1


def cluster(states: Tensor, pool: Tensor, centres: Tensor) -> tuple[Tensor, Tensor]:
    """Group the tokens of a pool around centres.

    states: [B, V, D]; pool: bool [B, V], the tokens to group; centres: int64 [B], how many groups.
    Returns bool [B, V], the centres, and int64 [B, V], the centre that each pooled token joins (-1 outside the pool).
    """
    far = torch.finfo(torch.float32).max
    pair = pool[:, :, None] & pool[:, None, :]
    distance = torch.cdist(states.float(), states.float()) / states.shape[-1] ** 0.5
    distance = distance.masked_fill(~pair, far)
    neighbours = min(NEIGHBOURS, states.shape[1])
    nearest = distance.topk(neighbours, dim=-1, largest=False).values
    density = torch.where(nearest < far, nearest**2, 0).sum(-1).div(neighbours).neg().exp()
    tie = torch.linspace(0, 1e-6, states.shape[1], device=states.device)  # equal tokens: the earlier is denser
    density = torch.where(pool, density - tie, -1.0)
    denser = density[:, None, :] > density[:, :, None]
    to_denser = distance.masked_fill(~denser, far).amin(-1)
    widest = torch.where(pair, distance, 0).amax((-1, -2))
    to_denser = torch.minimum(to_denser, widest[:, None])
    peak = torch.where(pool, density * to_denser, -1.0)
    is_centre = (ranks(peak, pool) < centres[:, None]) & pool
    to_centre = distance.masked_fill(~is_centre[:, None, :], far)
    joined = to_centre.argmin(-1)
    own = torch.arange(states.shape[1], device=states.device).expand_as(joined)
    joined = torch.where(is_centre, own, joined)
    has_centre = is_centre.any(-1, keepdim=True)
    return is_centre, torch.where(pool & has_centre, joined, -1)


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
