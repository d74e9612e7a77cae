"""Greedy selection of a set, shared by the methods that look for diverse tokens.

A pick depends on the one before. `GreedyPicks.choose` makes one pick of every sample at a time, exactly. On the host its steps
are numpy's, which cost less than torch's to begin.

A device would wait for as many launches as there are picks. There `GreedyPicks.choose_blocks` makes several picks a step: of
the candidates with the largest gains, those whose gain would still be large if every candidate before them were taken. The
set is that of `choose` wherever no candidate before a pick changes its gain; otherwise a token may be taken a block later or
earlier than in turn. `benchmarks/selection.py` measures what that loses. Blocks grow with what was taken, by sizes that depend on nothing else: a set of 100 begins with the set
of 50, alone or in a batch. No value is brought to the host.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from vispco.core.indexing import batch_index
from vispco.core.small_arrays import Numbers, as_numbers, is_on_host, library_of
from vispco.cost.dimensions import Dimensions
from vispco.scorers.base import Selection, ranks
from vispco.scorers.context import ScoringContext

Update: TypeAlias = Callable[[int, Numbers, Numbers], Numbers]
"""(step, picked int64 [B, 1], gains float [B, V]) -> the gains of the next step, -inf for this token and all before it."""
BlockGains: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""(candidates int64 [B, M], all gains sorted, float [B, V]) -> candidates' gains if those before each were taken, [B, M]."""
BlockUpdate: TypeAlias = Callable[[int, Tensor, Tensor], Tensor]
"""(tokens taken before, picked int64 [B, n], gains float [B, V]) -> the gains of the next step, -inf for all that were taken."""
GONE = -float("inf")
_CANDIDATES = 4  # for each pick of a block


class GreedyPicks:
    """Takes the token with the largest gain of each sample, again and again. Equal gains go to the earlier token.

    live: bool [B, V]. exact: one pick a step; by default on the host only. library: what steps compute with, see
    `vispco.core.small_arrays`. samples: 0, 1, ..., B - 1 as a column: x[samples, picked] is [B, 1, ...].
    """

    def __init__(self, live: Tensor, *, exact: bool | None = True) -> None:
        on_host = is_on_host(live.device)
        self.live, self.exact = live, on_host if exact is None else exact
        self.host = on_host and self.exact
        self.library = library_of(live.device) if self.exact else torch
        column = batch_index(len(live), live.device)
        self.samples, self._pair_samples = self.numbers(column), column[:, :, None]

    def numbers(self, values: Tensor) -> Numbers:
        """A tensor as what steps compute with; it is not copied."""
        return as_numbers(values) if self.exact else values

    def barred(self) -> Numbers:
        """0 for the tokens that may be taken, -inf for the others: float [B, V], to be added to gains."""
        return self.numbers(torch.zeros(self.live.shape, device=self.live.device).masked_fill_(~self.live, GONE))

    def choose(self, counts: Tensor, max_count: int, gains: Numbers, update: Update) -> Selection:
        """counts: int64 [B]; max_count: their largest, on the host; gains: float [B, V] of the first step, -inf if not live.

        The scores of the selection fall with the order of picking. Tokens that were not picked follow, by the gain that they
        would have brought next.
        """
        picks = []
        for step in range(max_count if self.live.shape[1] else 0):
            picks.append(gains.argmax(-1)[:, None])
            gains = update(step, picks[-1], gains)
        return self._selection(picks, gains, counts, max_count)

    def choose_blocks(
        self, counts: Tensor, max_count: int, gains: Tensor, in_block: BlockGains, update: BlockUpdate, *, growth: float
    ) -> Selection:
        """The same in blocks of `growth` times the tokens that were taken before, and of one token where that is less."""
        width, picks, taken = self.live.shape[1], [], 0
        while taken < max_count and width:
            size = min(max(1, int(growth * taken)), max_count - taken, width)
            if size == 1:
                picked = gains.argmax(-1, keepdim=True)
            else:
                best = gains.sort(dim=-1, descending=True, stable=True)
                candidates = best.indices[:, : _CANDIDATES * size]
                left = in_block(candidates, best.values)
                first = left.sort(dim=-1, descending=True, stable=True).indices[:, :size]
                picked = candidates.gather(1, first)
            gains = update(taken, picked, gains)
            picks.append(picked)
            taken += size
        return self._selection(picks, gains, counts, max_count)

    def among(self, table: Tensor, tokens: Tensor) -> Tensor:
        """The entries of a table for pairs of tokens: [B, V, V], int64 [B, M] -> [B, M, M]."""
        return table[self._pair_samples, tokens[:, :, None], tokens[:, None]]

    def _selection(self, picks: list[Numbers], gains: Numbers, counts: Tensor, max_count: int) -> Selection:
        # At which place each token was picked first: int64 [B, V]; the number of picks for one that was not.
        number = sum(each.shape[1] for each in picks)
        order = torch.full(self.live.shape, number, device=self.live.device)
        if self.host and picks:
            steps = np.broadcast_to(np.arange(number)[::-1], (len(order), number))
            order.numpy()[self.samples, np.concatenate(picks[::-1], axis=1)] = steps  # the last that is written stays
        elif picks:
            line = torch.cat(picks, dim=1)
            places = torch.arange(number, device=line.device).expand(len(line), -1)
            order = order.scatter_reduce(1, line, places, "amin")
        if self.host:
            gains = torch.from_numpy(gains)
        later = max_count + ranks(gains, self.live & (order == max_count))
        return Selection(self.live & (order < counts[:, None]), -torch.where(order < max_count, order, later).float())


def cosines(states: Tensor) -> Tensor:
    """Cosine of every pair of tokens, in float32: [B, V, D] -> [B, V, V]."""
    unit = functional.normalize(states.float(), dim=-1)
    return unit @ unit.transpose(1, 2)


def embedding_cosines(context: ScoringContext) -> Tensor:
    """Cosine of every pair of visual tokens as they entered the language model, computed once per prefill; [B, V, V]."""
    return context.once("embedding_cosines", lambda: cosines(context.visual_embeddings()))


def feature_cosines(context: ScoringContext) -> Tensor:
    """The same of the features that the projector reads, for scorers with `needs_vision.features`; [B, V, V]."""
    return context.once("feature_cosines", lambda: cosines(context.vision.features))


def feature_cosine_flops(num_visual: int, dimensions: Dimensions) -> int:
    """FLOPs of `feature_cosines`."""
    return 0 if dimensions.vision is None else 2 * num_visual * num_visual * dimensions.vision.width
