"""Density-peak clustering with k nearest neighbours, batched: the grouping behind SparseVLM's recycling.

Rodriguez & Laio, "Clustering by fast search and find of density peaks" (Science 2014); Du et al. for the k-nearest-
neighbour density. A token is a centre if it is dense and far from anything denser; the others join the nearest centre.
"""

import torch
from torch import Tensor

from vispco.ranking import ranks

NEIGHBOURS = 5


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
