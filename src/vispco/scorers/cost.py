"""FLOPs of scoring: what a chain of scorers adds to a prefill. A budget pays for it.

A choice is made before a layer where tokens leave. It reads attention rows, multiplies states or runs a small network. How
much that takes is said by each scorer (`attention_rows`, `choice_flops`, `flops_per_kept`, `setup_flops`) as plain arithmetic,
at most quadratic in the visual tokens that are there, so that budgets are solved in closed form.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from vispco.cost.dimensions import Dimensions
from vispco.cost.workload import Array, Scoring, ScoringFlops, Whole, Workload
from vispco.scorers.base import Scorer, VisionNeeds
from vispco.scorers.chain import Chain, ChainLike
from vispco.scorers.mixture import MixedChain, chains_of


@dataclass(frozen=True, eq=False)
class ChainScoring:
    """The scoring of a chain on a language model; what a `Workload` calls `scoring`.

    reads: what is read of the vision tower; default: what the chain needs.
    """

    chain: Chain
    dimensions: Dimensions
    reads: VisionNeeds | None = None

    def always(self, num_layers: int) -> Array:
        """The layers before which a scorer decides whatever the schedule says: bool [L]."""
        scorers = [self.chain.scorer_at(layer) for layer in range(num_layers)]
        return np.array([scorer is not None and scorer.acts_at(i) for i, scorer in enumerate(scorers)])

    def flops(self, falls: Array, num_text: Array, num_instruction: Array, num_visual: Array) -> ScoringFlops:
        """FLOPs of the choices before the layers that are marked: falls bool [n, L], numbers of tokens int64 [n]."""
        constant, linear, quadratic, kept = np.zeros((4, *falls.shape), dtype=np.int64)
        once, size = np.zeros_like(num_visual), self.dimensions.vision
        if size is not None:  # attention rows of the vision tower that are read, taken for one picture a sample
            needs = self.chain.needs_vision if self.reads is None else self.reads
            patches = num_visual * size.patches + size.class_tokens
            rows = len(needs.received) * patches + len(needs.attention) * (1 if size.class_tokens else patches)
            once = np.where(num_visual > 0, 2 * rows * patches * size.width, 0)
        found = ScoringFlops(constant, linear, quadratic, kept, once)
        ready: dict[tuple[int, bool], Array] = {}
        for layer in np.flatnonzero(falls.any(axis=0)).tolist():
            scorer = self.chain.scorer_at(layer)
            if scorer is None:
                continue
            reads = layer > 0 or scorer.needs_entering
            key = (id(scorer), reads)
            if key not in ready:
                ready[key] = self._polynomial(scorer, num_text, num_instruction, num_visual, reads=reads)
            for part, values in zip((found.constant, found.linear, found.quadratic), ready[key], strict=True):
                part[:, layer] = np.where(falls[:, layer], values, 0)
            merging: Any = scorer.flops_per_kept(num_visual, self.dimensions)  # type: ignore[arg-type]
            kept[:, layer] = np.where(falls[:, layer], merging, 0)
        ends = [first for first, _ in self.chain.stages[1:]] + [falls.shape[1]]
        for (first, scorer), end in zip(self.chain.stages, ends, strict=True):
            setup: Any = scorer.setup_flops(num_instruction, num_visual, self.dimensions)  # type: ignore[arg-type]
            found.once[:] += np.where(falls[:, first:end].any(axis=1), setup, 0)
        return found

    def _polynomial(self, scorer: Scorer, text: Array, asked: Array, visual: Array, *, reads: bool) -> Array:
        """FLOPs of one choice among v visual tokens: its constant, linear and quadratic term, int64 [3, n], from three values of v."""
        size = self.dimensions
        width = size.heads * size.head_dim
        flops = []
        for live in range(3):
            tokens: Any = text + live
            total = scorer.choice_flops(tokens, visual, size)  # type: ignore[arg-type]
            if reads:
                total = total + scorer.attention_rows(asked, live) * tokens * 2 * width  # type: ignore[arg-type]
            if scorer.needs_entering:  # queries, keys and values of the layer are computed once for the choice
                total = total + tokens * size.hidden * (2 * width + 4 * size.kv_heads * size.head_dim)
            flops.append(np.broadcast_to(np.asarray(total, dtype=np.int64), visual.shape))
        none, one, two = flops
        quadratic = (two - 2 * one + none) // 2
        return np.stack([none, one - none - quadratic, quadratic])


@dataclass(frozen=True, eq=False)
class _MixedScoring:
    """The scoring of samples that follow different chains: groups [n], the number of the chain of each."""

    chains: Sequence[Chain]
    groups: Sequence[int]
    dimensions: Dimensions

    def always(self, num_layers: int) -> Array:
        """Chains of a mixed one decide no counts by themselves."""
        return np.zeros(num_layers, dtype=bool)

    def flops(self, falls: Array, num_text: Array, num_instruction: Array, num_visual: Array) -> ScoringFlops:
        """See `ChainScoring.flops`."""
        reads = MixedChain.of_chains(self.chains).needs_vision
        parts = [ChainScoring(chain, self.dimensions, reads) for chain in self.chains]
        found = [part.flops(falls, num_text, num_instruction, num_visual) for part in parts]
        mine, rows = np.array(self.groups), np.arange(len(falls))
        names = ("constant", "linear", "quadratic", "kept", "once")
        return ScoringFlops(*(np.stack([getattr(each, name) for each in found])[mine, rows] for name in names))


def workload_under(
    chain: Chain,
    dimensions: Dimensions,
    num_text: Whole,
    num_visual: Whole,
    num_instruction: Whole | None = None,
    num_read: Whole = 0,
    *num_shown: Whole,
    planning_flops: Whole = 0,
    groups: Sequence[int] | None = None,
) -> Workload:
    """Samples whose tokens are chosen by a chain, with all that the choice costs; see `Workload`.

    num_shown: visual tokens before the vision tower let some go, where it is cut; see `Workload`.
    groups: the number of each sample's own chain, where the chain is a mixed one.
    """
    sites, first = chain.sites(dimensions.num_layers), chain.earliest_layer
    scoring: Scoring = ChainScoring(chain, dimensions)
    if groups is not None:
        scoring = _MixedScoring(chains_of(chain), groups, dimensions)
    given = (num_text, num_visual, sites, first, scoring, num_instruction, num_read, planning_flops)
    return Workload(*given, *num_shown)


def scoring_flops(
    chain: ChainLike,
    dimensions: Dimensions,
    counts: Sequence[int] | Tensor,
    num_text: int,
    num_instruction: int,
    num_visual: int | None = None,
) -> int:
    """FLOPs of all scoring in one prefill of one sample.

    counts: visual tokens that enter each layer; num_instruction: text rows after the first visual token; num_visual: tokens
    before any left, by default what enters layer 0.
    """
    found, after = Chain.of(chain), np.array(counts, dtype=np.int64)
    original = int(after[0]) if num_visual is None else num_visual
    before = np.concatenate([[original], after[:-1]])
    scoring = ChainScoring(found, dimensions)
    falls = (after < before) | (scoring.always(len(after)) & (original > 0))
    sizes = (np.array([number], dtype=np.int64) for number in (num_text, num_instruction, original))
    price = scoring.flops(falls[None], *sizes)
    by_layer = price.constant + price.linear * before + price.quadratic * before**2 + price.kept * after
    return int(by_layer.sum() + price.once.sum())
