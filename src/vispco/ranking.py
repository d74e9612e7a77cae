"""Ranks of scores, the same way everywhere: best first, ties to the earlier token."""

import torch
from torch import Tensor


def ranks(scores: Tensor, among: Tensor) -> Tensor:
    """Rank of each token among those marked, 0 for the best; unmarked ones come last. [B, V] -> int64 [B, V]."""
    order = ranked(scores, among)
    places = torch.arange(order.shape[-1], device=order.device).expand_as(order)
    return torch.empty_like(order).scatter_(-1, order, places)


def ranked(scores: Tensor, among: Tensor) -> Tensor:
    """The tokens from best to worst, those that are not marked last. [B, V] -> int64 [B, V]."""
    return scores.float().masked_fill(~among, -torch.inf).sort(dim=-1, descending=True, stable=True).indices
