"""Sets that are filled in turns: first some tokens by one score, then others by another, until the count is reached."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from vispco.scorers.base import Selection, ranks, top_tokens


@dataclass(frozen=True, eq=False)
class Tier:
    """One turn. scores: float [B, V]; among: bool [B, V], None for all; limit: int64 [B], how many at most."""

    scores: Tensor
    among: Tensor | None = None
    limit: Tensor | None = None


def fill(live: Tensor, counts: Tensor, *tiers: Tier) -> Selection:
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
