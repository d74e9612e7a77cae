"""`ScoringContext`: the view of a scorer at one layer: the live tokens, and everything that it declared to need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

import torch
from torch import Tensor

from vispco.core.errors import InvalidInputError
from vispco.core.indexing import take
from vispco.core.layout import TokenLayout

T = TypeVar("T")
Rows = Literal["last", "text", "visual", "after-image"]
"""Whose attention is read; see `ScoringContext.attention`."""
Heads = Literal["mean", "max"]
Block: TypeAlias = int | float
"""A block of the vision tower; see `VisionNeeds`."""
Of = Literal["before", "entering"]
"""Whose attention is read: of the layer before, or of the layer that the tokens are about to enter."""


class AttentionSource(Protocol):
    """The engine's side of `ScoringContext`: provides attention; see the methods of the same names there."""

    def attention(self, rows: Rows, heads: Heads, weights: Tensor | None, of: Of, *, rotary: bool) -> Tensor: ...

    def attention_table(self) -> Tensor: ...

    def keys(self, rows: Literal["text", "visual"]) -> Tensor: ...

    def attention_flow(self, steps: int, temperature: float) -> Tensor: ...


@dataclass(frozen=True, eq=False)
class VisionRecord:
    """Recorded states of the vision tower, one row for each visual slot; see `Scorer.needs_vision`.

    features: [B, V, D_vision], what the projector reads, averaged over the patches of a token.
    attention: block -> float [B, V], the attention that a token's patches receive in that block, mean over heads: from
        the class token where the tower has one, else the mean over all patches.
    received: block -> float [B, V], the same from all patches (and the class token), whatever the tower has.
    keys: block -> [B, V, d], the mean over heads of the keys, averaged over the patches of a token.
    pixels: [B, V, numbers of a cell], for scorers with `needs_pixels`, inside the tower alone.

    What was not asked for is None or has no block.
    """

    features: Any = None
    attention: dict[Block, Tensor] = field(default_factory=dict)
    received: dict[Block, Tensor] = field(default_factory=dict)
    keys: dict[Block, Tensor] = field(default_factory=dict)
    pixels: Tensor | None = None


@dataclass
class ScoringContext:
    """One boundary between two layers, as a scorer sees it. B samples, V visual slots (the largest count in the batch).

    layer: the decoder layer that the tokens are about to enter; 0 is before the language model.
    live: bool [B, V], the visual tokens that are still there. counts: int64 [B], how many may stay at most.
    host_counts: the counts once more, on the host, where loops are decided.
    groups: which chain of a mixed one each sample follows, on the host; -1 for a sample of which nothing is dropped here.
        None where all follow one chain.
    embeddings: [B, N, D], what entered the language model.
    hidden: [B, V, D], the visual tokens' states where they would leave, for scorers with `needs_hidden`: the input of
        `layer`, or for the site 'mid' the input of the feed-forward network before it.
    previous_hidden: [B, V, D], their states at the input of `layer - 1`, for scorers with `needs_previous_hidden`.
    merged_sizes: float [B, V], how many original tokens each one stands for, once something was merged; see `sizes`.
    text_hidden: [B, R, D], the states of the instruction tokens in the order of `layout.instruction_index`, for scorers with
        `needs_text_hidden`.
    vision: what was kept of the vision tower, for scorers with `needs_vision`. States that are not declared are None.
    memo: kept for the length of one prefill, for what a scorer computes once; see `once`.
    """

    layer: int
    layout: TokenLayout
    live: Tensor
    counts: Tensor
    embeddings: Tensor
    merged_sizes: Tensor | None
    host_counts: tuple[int, ...]
    groups: tuple[int, ...] | None = None
    hidden: Any = None
    previous_hidden: Any = None
    text_hidden: Any = None
    vision: VisionRecord = field(default_factory=VisionRecord)
    source: AttentionSource | None = None
    memo: dict[str, Any] = field(default_factory=dict)

    @property
    def max_count(self) -> int:
        """The largest of the counts, on the host: the number of picks of a greedy method."""
        return max(self.host_counts)

    def attention(
        self,
        rows: Rows,
        heads: Heads = "mean",
        weights: Tensor | None = None,
        *,
        of: Of = "before",
        rotary: bool = True,
    ) -> Tensor:
        """Attention that each visual token receives in layer `layer - 1`, summed over query rows; float32 [B, V].

        rows: 'last' is the last instruction token, 'text' the instruction tokens after the first visual token, 'visual'
        the live visual tokens, 'after-image' the first text token after the last picture, which has seen the pictures
        and no question yet. heads: how the heads are reduced, row by row. weights: [B, R], for 'text' in the order of
        `layout.instruction_index`, for 'visual' of `layout.visual_index`. of: 'entering' reads layer `layer` itself, as if
        nothing left before it (declare `needs_entering`); rotary=False then leaves positions out of queries and keys, and
        out of the softmax what an earlier turn has left in the cache.
        """
        return self._source().attention(rows, heads, weights, of, rotary=rotary)

    def attention_table(self) -> Tensor:
        """Attention of the text in layer `layer - 1` row by row, mean over heads: float32 [B, R, V], 0 for empty rows."""
        return self._source().attention_table()

    def keys(self, rows: Literal["text", "visual"]) -> Tensor:
        """Keys of layer `layer - 1` of the instruction tokens [B, R, H_kv, d] or of the visual ones [B, V, H_kv, d].

        They are as the layer used them, rotated. Anything stands in slots that are empty or not live.
        """
        return self._source().keys(rows)

    def attention_flow(self, steps: int, temperature: float) -> Tensor:
        """Where attention ends up after `steps` hops in layer `layer - 1`; float32 [B, V].

        All tokens that are left begin with the same share; each hop hands it on by the attention map at a temperature. The
        root mean square over heads. Only one head's map is in memory at a time.
        """
        return self._source().attention_flow(steps, temperature)

    def _source(self) -> AttentionSource:
        if self.source is None:
            raise InvalidInputError(
                "This scorer reads attention but does not declare it. Set `needs_attention = True` on its class, or "
                "`needs_entering = True` for the attention of the layer that the tokens are about to enter."
            )
        return self.source

    @property
    def sizes(self) -> Tensor:
        """The number of original tokens that each one stands for, above 1 after merging: float [B, V]."""
        return torch.ones(self.live.shape, device=self.live.device) if self.merged_sizes is None else self.merged_sizes

    def visual_embeddings(self) -> Tensor:
        """The visual tokens as they entered the language model: [B, V, D], zeros in empty slots."""
        slots = self.layout.is_visual_slot.to(self.embeddings.device)
        return self.once("visual_embeddings", lambda: self.embeddings_at(self.layout.visual_index) * slots[..., None])

    def once(self, name: str, compute: Callable[[], T]) -> T:
        """What was computed under this name before in the same prefill, else what is computed now."""
        if name not in self.memo:
            self.memo[name] = compute()
        found: T = self.memo[name]
        return found

    def embeddings_at(self, positions: Tensor) -> Tensor:
        """Embeddings that entered the language model at positions [B, R]; arbitrary ones for padding: [B, R, D]."""
        return take(self.embeddings, positions.clamp(max=self.layout.length - 1).to(self.embeddings.device))
