"""One forward pass under a pruner: which tokens are left at which layer.

A pass lives from the entry of the language model to its end. The hooks in `attach.py` call it; it never looks back at
a model, only at the tensors that it is handed. What becomes of the tokens is said in `dropping.py` and `masking.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor, nn

from vispco.engine.cache import cache_layer
from vispco.engine.gather import merge, spread, take, top_tokens
from vispco.engine.plan import Plan
from vispco.engine.rows import AttentionReader, Heads
from vispco.layout import TokenLayout
from vispco.scorers.base import Rows, Scorer, ScoringContext


class Pass(ABC):
    """What dropping and masking share: the decisions. Subclasses say what becomes of the tokens."""

    def __init__(
        self, layout: TokenLayout, plan: Plan | None, scorer: Scorer, embeddings: Tensor, past: int, *, record: bool
    ) -> None:
        self.layout, self.plan, self.scorer, self.embeddings, self.past = layout, plan, scorer, embeddings, past
        self.live = layout.is_visual_slot if plan is not None else None
        self.most_live = max(layout.num_visual, default=0)  # on the host, so that nobody has to ask a device
        # One copy to the device for the whole prefill; a layer only slices it.
        self.counts = None if plan is None else plan.counts.to(layout.visual.device, non_blocking=True)
        self.into: Tensor | None = None
        self.memo: dict[str, Any] = {}
        self.captured: dict[str, Tensor] = {}
        self.reader: AttentionReader | None = None
        self.decided = -1  # the last layer whose tokens have been chosen
        self.trace: list[Tensor] | None = [] if record and plan is not None else None

    def drops_before(self, layer: int) -> bool:
        """Do fewer tokens enter this layer than the one before? Host arithmetic only."""
        if self.plan is None or layer >= len(self.plan.rows[0]):
            return False
        before = list(self.layout.num_visual) if layer == 0 else self.plan.at(layer - 1)
        return self.plan.at(layer) != before

    def wants_attention(self, layer: int) -> bool:
        return self.scorer.needs_attention and self.drops_before(layer + 1)

    def after_attention(self, layer: int, module: nn.Module, kwargs: dict[str, Any], past_keys: Tensor | None) -> None:
        """Layer `layer` has attended; choose what the next one keeps, while queries and keys are at hand."""
        if not self.wants_attention(layer):
            return
        self.reader = self._reader(layer, module, kwargs, past_keys)
        self.captured.clear()
        if not self.scorer.needs_hidden:
            self.decide(layer + 1, None)

    def choose(self, layer: int, hidden: Tensor) -> bool:
        """At the entry of a layer: are there tokens to part with? If no attention had to be read, choose them now."""
        if not self.drops_before(layer):
            return False
        if self.decided < layer:
            self.decide(layer, hidden)
        return True

    def decide(self, layer: int, hidden: Tensor | None) -> None:
        """Choose the tokens that enter a layer."""
        if self.plan is None:
            return
        context = self._context(layer, hidden)
        live = context.live
        with torch.no_grad():
            scores = self.scorer.score(context)
            keep = top_tokens(scores, live, context.counts)
            self.into = self.scorer.merge(context, scores, keep)
        self._apply_choice(layer, scores, keep)
        self.live, self.decided, self.reader = keep, layer, None
        self.most_live = max(self.plan.at(layer))

    @abstractmethod
    def _apply_choice(self, layer: int, scores: Tensor, keep: Tensor) -> None:
        """Make the choice take effect at the entry of `layer`."""

    def _context(self, layer: int, hidden: Tensor | None) -> ScoringContext:
        assert self.counts is not None  # noqa: S101 - for the type checker: there is a plan
        assert self.live is not None  # noqa: S101
        states = None
        if self.scorer.needs_hidden and hidden is not None:
            states = take(hidden, self.slot_positions().clamp(max=hidden.shape[1] - 1).to(hidden.device))
        read = self._mass if self.scorer.needs_attention else None
        counts = self.counts[:, layer]
        return ScoringContext(layer - 1, self.layout, self.live, counts, self.embeddings, states, read, self.memo)

    def _mass(self, rows: Rows, heads: Heads, weights: Tensor | None) -> Tensor:
        """See `ScoringContext.attention`."""
        assert self.reader is not None  # noqa: S101 - set in after_attention, before any scorer runs
        assert self.live is not None  # noqa: S101
        width = self.reader.query.shape[1]
        columns = self.slot_positions()
        present: Tensor | None = None
        if rows == "last":
            index = self.to_stage(self.layout.query[:, None])
        elif rows == "text":
            index = self.to_stage(self.layout.instruction_index)
            present = self.layout.instruction_index < self.layout.length
        else:
            slots = self._live_slots()
            present = slots < columns.shape[1]
            slots = slots.clamp(max=columns.shape[1] - 1)
            index = columns.gather(1, slots)
            weights = None if weights is None else weights.gather(1, slots)
        index, columns = index.clamp(max=width - 1), columns.clamp(max=width - 1)
        mass = self.reader.mass(index, columns, heads=heads, weights=weights, present=present)
        return mass.to(self.live.device)  # layers may be spread over devices; choices stay with the inputs

    def _live_slots(self) -> Tensor:
        """The visual slots that are live, packed: int64 [B, n] with n the largest count, padded with V."""
        assert self.live is not None  # noqa: S101
        width = self.live.shape[1]
        slots = torch.arange(width, device=self.live.device).expand_as(self.live)
        return torch.where(self.live, slots, width).sort(-1).values[:, : self.most_live]

    def _reader(
        self, layer: int, module: nn.Module, kwargs: dict[str, Any], past_keys: Tensor | None
    ) -> AttentionReader:
        cache, query = kwargs.get("past_key_values"), self.captured["query"]
        held = 0 if past_keys is None else past_keys.shape[2]
        keys = None if cache is None else cache_layer(cache, layer).keys
        complete = keys is not None and keys.shape[2] == held + query.shape[1]  # else a window has cut it
        return AttentionReader(
            module,
            query,
            None if complete else self.captured["key"],
            kwargs["position_embeddings"],
            kwargs.get("attention_mask"),
            all_keys=keys if complete else None,
            past_keys=past_keys,
            barred=self.barred_keys(held),
        )

    def to_stage(self, positions: Tensor) -> Tensor:
        """Original positions [B, R] -> places in the tensors that layers process now."""
        return positions

    def slot_positions(self) -> Tensor:
        """Where each visual slot stands in the tensors that layers process now; [B, V]."""
        return self.to_stage(self.layout.visual_index)

    def barred_keys(self, held: int) -> Tensor | None:  # noqa: ARG002
        return None

    def merged(self, hidden: Tensor) -> Tensor:
        """Average dropped tokens into kept ones, where the scorer asks for it."""
        if self.into is None:
            return hidden
        place = self.slot_positions().clamp(max=hidden.shape[1])
        target = place.gather(1, self.into.clamp(min=0)).masked_fill(self.into < 0, -1)
        nowhere = torch.full(hidden.shape[:2], -1, device=hidden.device)
        hidden = merge(hidden, spread(target, place, nowhere))
        self.into = None
        return hidden

    def note(self) -> None:
        if self.trace is not None and self.live is not None:
            self.trace.append(self.live)
