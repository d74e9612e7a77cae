"""Selection by tiers of scores, and the nearest kept token of every other token."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from vispco.core.indexing import token_index
from vispco.cost.dimensions import Dimensions
from vispco.scorers.base import Selection, ranks, top_tokens


@dataclass(frozen=True, eq=False)
class Tier:
    """One turn. scores: float [B, V]; among: bool [B, V], None for all; limit: int64 [B], how many at most."""

    scores: Tensor
    among: Tensor | None = None
    limit: Tensor | None = None


def select_by_tiers(live: Tensor, counts: Tensor, *tiers: Tier) -> Selection:
    """Fill the counts [B] tier by tier with the best-scored live tokens that are not taken yet; ties to the earlier token.

    Scores of the selection fall in the order of taking; tokens that were not taken follow, by the last tier's scores.
    """
    keep, order = torch.zeros_like(live), torch.zeros_like(live, dtype=torch.long)
    for tier in tiers:
        taken = keep.sum(-1)
        room = counts - taken
        waiting = live & ~keep if tier.among is None else live & ~keep & tier.among
        fresh = top_tokens(tier.scores, waiting, room if tier.limit is None else room.minimum(tier.limit))
        order = torch.where(fresh, taken[:, None] + ranks(tier.scores, waiting), order)
        keep = keep | fresh
    left = counts[:, None] + ranks(tiers[-1].scores, live & ~keep)
    return Selection(keep, -torch.where(keep, order, left).float())


def share_of(counts: Tensor, share: float) -> Tensor:
    """A share of each count, rounded down: int64 [B]. What is a whole number up to rounding error counts as one."""
    return (counts * share + 1e-4).floor().long()


def packed(marked: Tensor, width: int) -> Tensor:
    """The slots that are marked, in order: bool [B, V] -> int64 [B, width], padded with V. `width`: host, enough for all."""
    slots = token_index(marked.shape[1], marked.device)
    return torch.where(marked, slots, marked.shape[1]).sort(-1).values[:, :width]


def states_at(states: Tensor, slots: Tensor) -> Tensor:
    """States of some slots: [B, V, D], int64 [B, W] -> [B, W, D]; anything where a slot is V."""
    index = slots.clamp(max=states.shape[1] - 1)[..., None].expand(-1, -1, states.shape[2])
    return states.gather(1, index)


def nearest(states: Tensor, marked: Tensor, most: int) -> Tensor:
    """The slot of the marked token with the largest cosine to each token: int64 [B, V], -1 where none is marked.

    states: [B, V, D]; marked: bool [B, V], at most `most` (host) of a sample. A marked one has its own slot. Equal cosines go
    to the earlier one.
    """
    if not most:
        return torch.full(marked.shape, -1, device=marked.device)
    unit, slots = functional.normalize(states.float(), dim=-1), packed(marked, most)
    similar = unit @ states_at(unit, slots).transpose(1, 2)  # [B, V, most]
    empty = slots == marked.shape[1]
    found = slots.gather(1, similar.masked_fill(empty[:, None], -torch.inf).argmax(-1))
    found = torch.where(marked.any(-1, keepdim=True), found, -1)
    return torch.where(marked, token_index(marked.shape[1], marked.device), found)


def key_cosine_flops(num_visual: int, dimensions: Dimensions) -> int:
    """FLOPs of comparing all visual tokens with one of them by a tower's keys, averaged over heads."""
    return 0 if dimensions.vision is None else 2 * num_visual * (dimensions.vision.width // dimensions.vision.heads)
