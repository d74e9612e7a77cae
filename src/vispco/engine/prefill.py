"""One forward pass under a pruner: which tokens are left at which layer. `DropPass` really drops them.

A pass lives from the entry of the language model to its end. The hooks in `attach.py` call it; it never looks back at
a model, only at the tensors that it is handed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor, nn

from vispco.engine.cache import cache_layer, track, tracked
from vispco.engine.gather import Stage, gather_mask, merge, next_stage, restore, spread, take, top_tokens
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
            self._decide(layer + 1, None)

    def choose(self, layer: int, hidden: Tensor) -> bool:
        """At the entry of a layer: are there tokens to part with? If no attention had to be read, choose them now."""
        if not self.drops_before(layer):
            return False
        if self.decided < layer:
            self._decide(layer, hidden)
        return True

    def _decide(self, layer: int, hidden: Tensor | None) -> None:
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


class DropPass(Pass):
    """Dropped tokens are gone: the hidden states, rotary embeddings, masks and caches of later layers are shorter."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.stage: Stage | None = None
        self.upcoming: tuple[Stage, Tensor] | None = None
        self.inverse: Tensor | None = None
        self.gathered: dict[tuple[int, ...], Any] = {}
        self.flat_masks = False  # flash attention takes [B, K] padding masks only

    def enter_layer(self, layer: int, hidden: Tensor, kwargs: dict[str, Any]) -> tuple[Tensor, dict[str, Any]]:
        if self.choose(layer, hidden) and self.upcoming is not None:
            hidden = self.merged(hidden)
            self.stage, local = self.upcoming
            hidden = take(hidden, local.to(hidden.device))
            self.upcoming, self.inverse = None, None
            self.gathered.clear()
        self.note()
        return hidden, self._adapted(layer, kwargs)

    def enter_ffn(self, hidden: Tensor) -> Tensor:
        """Between attention and FFN ('mid' scorers): only the tokens that the next layer keeps."""
        return hidden if self.upcoming is None else take(hidden, self.upcoming[1].to(hidden.device))

    def leave_ffn(self, hidden: Tensor) -> Tensor:
        if self.upcoming is None:
            return hidden
        width = self.layout.length if self.stage is None else self.stage.length
        return restore(hidden, Stage(self.upcoming[1], None), width)

    def leave(self, hidden: Tensor) -> Tensor:
        """At the end of the language model: every token back in its place, so that indices of the caller hold."""
        return hidden if self.stage is None else restore(hidden, self.stage, self.layout.length)

    def _apply_choice(self, layer: int, scores: Tensor, keep: Tensor) -> None:  # noqa: ARG002
        assert self.plan is not None  # noqa: S101
        text = self.layout.real & ~self.layout.visual
        wanted = [t + k for t, k in zip(self.layout.num_text, self.plan.at(layer), strict=True)]
        everything = spread(keep, self.layout.visual_index, text)
        self.upcoming = next_stage(everything, self.stage, max(wanted), exact=min(wanted) == max(wanted))

    def to_stage(self, positions: Tensor) -> Tensor:
        if self.stage is None:
            return positions
        if self.inverse is None:
            batch, n = self.layout.batch_size, self.layout.length
            places = torch.arange(self.stage.length, device=positions.device).expand(batch, -1)
            lost = torch.full((batch, n + 1), self.stage.length, device=positions.device)
            self.inverse = lost.scatter(1, self.stage.positions, places)
        return self.inverse.gather(1, positions)

    def _adapted(self, layer: int, kwargs: dict[str, Any]) -> dict[str, Any]:
        """The keyword arguments of a layer, cut to the tokens that are left."""
        cache, mask = kwargs.get("past_key_values"), kwargs.get("attention_mask")
        held = tracked(cache, layer)
        if self.stage is None:
            if held is None or (mask is None and held.valid is None):
                return kwargs
            return {**kwargs, "attention_mask": self._mask(layer, mask, held)}
        device = kwargs["position_embeddings"][0].device
        if cache is not None:
            held = track(cache, layer, self.layout.batch_size, device)
        new = {
            **kwargs,
            "attention_mask": self._mask(layer, mask, held),
            "position_embeddings": self._rotary(kwargs["position_embeddings"]),
        }
        if kwargs.get("position_ids") is not None:
            new["position_ids"] = None  # gaps in them would look like packed sequences to flash attention
        if held is not None:
            held.announce(self._slots(device), self.stage.valid, self.layout.length)
        return new

    def _slots(self, device: torch.device) -> Tensor:
        """Place of this pass's tokens in the whole conversation; [B, M]."""
        key = (0, 0)
        if key not in self.gathered:
            batch, n = self.layout.batch_size, self.layout.length
            here = torch.arange(n, device=device).expand(batch, -1) if self.stage is None else self.stage.positions
            self.gathered[key] = here + self.past
        slots: Tensor = self.gathered[key]
        return slots.to(device)

    def _mask(self, layer: int, mask: Tensor | None, held: Any) -> Tensor | None:  # noqa: ARG002
        """Cut once for all layers that were given the same mask and hold the same past."""
        past = held.slots if held is not None and held.held() else None
        key = (1, id(mask), id(past), 0 if past is None else held.held())
        if key not in self.gathered:
            device = self.layout.visual.device
            rows = self._slots(device)
            valid = None if self.stage is None else self.stage.valid
            slots = rows
            if past is not None:
                old, old_valid = held.entries()
                if valid is not None or old_valid is not None:
                    old_valid = torch.ones_like(old, dtype=torch.bool) if old_valid is None else old_valid
                    valid = torch.ones_like(rows, dtype=torch.bool) if valid is None else valid
                    valid = torch.cat([old_valid, valid], dim=1)
                slots = torch.cat([old, rows], dim=1)
            width = 0 if mask is None else mask.shape[-1]
            if mask is None and self.flat_masks:
                self.gathered[key] = (valid, mask, past)
                return valid
            picked = gather_mask(
                mask,
                None if self.stage is None else self.stage.positions,
                slots,
                self.past + self.layout.length - width,
                valid=valid,
                row_slots=rows,
            )
            self.gathered[key] = (picked, mask, past)  # the last two only so that their ids stay theirs
        picked_mask: Tensor | None = self.gathered[key][0]
        return picked_mask

    def _rotary(self, embeddings: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        assert self.stage is not None  # noqa: S101
        key = (2, id(embeddings[0]))
        if key not in self.gathered:
            positions = self.stage.positions.to(embeddings[0].device)
            self.gathered[key] = (tuple(take(e, positions) for e in embeddings), embeddings)
        rotary: tuple[Tensor, Tensor] = self.gathered[key][0]
        return rotary
