"""Greedy choice of a set, one token of every sample at a time: what the methods that look for a diverse set share.

A pick depends on the one before, so there are as many steps as tokens that stay. A step is a few operations on small arrays.
On the host they are numpy's, which cost less than torch's to begin; on a device they are torch's, and nothing is waited for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from vispco.cost.dimensions import Dimensions
from vispco.indexing import batch_index
from vispco.scorers.base import Selection, ranks
from vispco.scorers.context import ScoringContext
from vispco.small_arrays import Numbers, as_numbers, is_on_host, library_of

Update: TypeAlias = Callable[[int, Numbers, Numbers], Numbers]
"""(step, picked int64 [B, 1], gains float [B, V]) -> the gains of the next step, -inf for this token and all before it."""
GONE = -float("inf")


class GreedyPicks:
    """Takes the token with the largest gain of each sample, again and again. Equal gains go to the earlier token.

    live: bool [B, V]. library: of the device, see `vispco.small_arrays`. samples: 0, 1, ..., B - 1 as a column: x[samples, picked] is [B, 1, ...].
    """

    def __init__(self, live: Tensor) -> None:
        self.live, self.host, self.library = live, is_on_host(live.device), library_of(live.device)
        self.samples = self.numbers(batch_index(len(live), live.device))

    def numbers(self, values: Tensor) -> Numbers:
        """A tensor as what steps compute with; it is not copied."""
        return as_numbers(values)

    def barred(self) -> Numbers:
        """0 for the tokens that may be taken, -inf for the others: float [B, V], to be added to gains."""
        return self.numbers(torch.zeros(self.live.shape, device=self.live.device).masked_fill_(~self.live, GONE))

    def choose(self, counts: Tensor, max_count: int, gains: Numbers, update: Update) -> Selection:
        """counts: int64 [B]; max_count: their largest, on the host; gains: float [B, V] of the first step, -inf if not live.

        The scores of the selection fall with the order of picking. Tokens that were not picked follow, by the gain that they
        would have brought next.
        """
        width, picks = self.live.shape[1], []
        for step in range(max_count if width else 0):
            picks.append(gains.argmax(-1)[:, None])
            gains = update(step, picks[-1], gains)
        order = self._order(picks)
        keep = self.live & (order < counts[:, None])
        if self.host:
            gains = torch.from_numpy(gains)
        later = max_count + ranks(gains, self.live & (order == max_count))
        return Selection(keep, -torch.where(order < max_count, order, later).float())

    def _order(self, picks: list[Numbers]) -> Tensor:
        """At which step each token was picked first: int64 [B, V]; the number of steps for one that was not."""
        found = torch.full(self.live.shape, len(picks), device=self.live.device)
        if not picks:
            return found
        if self.host:
            steps = np.broadcast_to(np.arange(len(picks))[::-1], (len(found), len(picks)))
            found.numpy()[self.samples, np.concatenate(picks[::-1], axis=1)] = (
                steps  # the last one that is written stays
            )
            return found
        number = torch.arange(len(picks), device=found.device).expand(len(found), -1)
        return found.scatter_reduce(1, torch.cat(picks, dim=1), number, "amin")


def cosines(states: Tensor) -> Tensor:
    """Cosine of every pair of tokens, in float32: [B, V, D] -> [B, V, V]."""
    unit = functional.normalize(states.float(), dim=-1)
    return unit @ unit.transpose(1, 2)


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


def feature_cosine_flops(num_visual: int, dimensions: Dimensions) -> int:
    """FLOPs of `feature_cosines`."""
    return 0 if dimensions.vision is None else 2 * num_visual * num_visual * dimensions.vision.width
