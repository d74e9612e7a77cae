"""A pass that really drops tokens: what later layers are handed is shorter."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from vispco.engine.cache import track, tracked
from vispco.engine.choosing import Pass
from vispco.engine.gather import Stage, gather_mask, next_stage, restore, spread, take


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
