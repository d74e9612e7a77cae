"""Greedy choice of a set, one token of every sample at a time: what the methods that look for a diverse set share."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from vispco.ranking import ranks
from vispco.scorers.base import Selection
from vispco.scorers.context import ScoringContext

Update = Callable[[int, Tensor, Tensor], Tensor]
"""(step, picked int64 [B, 1], gains float [B, V]) -> the gains [B, V] of the next step."""


def pick_greedily(live: Tensor, counts: Tensor, max_count: int, gains: Tensor, update: Update) -> Selection:
    """Take the live token with the largest gain, update the gains, and again, until each sample has its count.

    live: bool [B, V]; counts: int64 [B]; max_count: their largest, on the host; gains: float [B, V] of the first step.
    Equal gains go to the earlier token. The scores of the selection fall with the order of picking; tokens that were not
    picked follow, by the gain that they would have brought next.
    """
    width = live.shape[1]
    order = torch.full(live.shape, width, device=live.device)
    waiting = live
    for step in range(max_count if width else 0):
        picked = torch.where(waiting, gains, -torch.inf).argmax(-1, keepdim=True)
        taken = (step < counts[:, None]) & waiting.gather(1, picked)
        order = order.scatter(1, picked, torch.where(taken, step, order.gather(1, picked)))
        waiting = waiting.scatter(1, picked, waiting.gather(1, picked) & ~taken)
        gains = update(step, picked, gains)
    keep = live & ~waiting
    return Selection(keep, -torch.where(keep, order, width + ranks(gains, waiting)).float())


def cosines(states: Tensor) -> Tensor:
    """Cosine of every pair of tokens, in float32: [B, V, D] -> [B, V, V]."""
    unit = functional.normalize(states.float(), dim=-1)
    return unit @ unit.transpose(1, 2)


def row_of(matrix: Tensor, token: Tensor) -> Tensor:
    """One row of each sample's matrix: [B, V, V], int64 [B, 1] -> [B, V]."""
    return matrix.gather(1, token[..., None].expand(-1, -1, matrix.shape[2]))[:, 0]


def embedding_cosines(context: ScoringContext) -> Tensor:
    """Cosine of every pair of visual tokens as they entered the language model, computed once per prefill; [B, V, V]."""
    if "embedding_cosines" not in context.memo:
        context.memo["embedding_cosines"] = cosines(context.visual_embeddings())
    found: Tensor = context.memo["embedding_cosines"]
    return found


def feature_cosines(context: ScoringContext) -> Tensor:
    """The same of the features that the projector reads, for scorers with `needs_vision.features`; [B, V, V]."""
    assert context.vision is not None  # noqa: S101 - declared by needs_vision
    assert context.vision.features is not None  # noqa: S101
    if "feature_cosines" not in context.memo:
        context.memo["feature_cosines"] = cosines(context.vision.features)
    found: Tensor = context.memo["feature_cosines"]
    return found
