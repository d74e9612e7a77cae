"""What a decoder layer is handed besides its hidden states, cut to the tokens that are left: masks, rotary embeddings, cache."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from vispco.engine.cache import TrackedLayer, track, tracked
from vispco.engine.gather import MaskCut, Stage, gather_mask, take
from vispco.engine.layer_map import LayerMap
from vispco.engine.per_token import cut_tokens

Arguments = dict[str, Any]
OWN = ("hidden_states", "attention_mask", "past_key_values", "position_ids", "shared_kv_states")
"""Arguments that are not simply cut token by token."""


@dataclass(eq=False)
class ArgumentCutter:
    """Cuts the arguments of layers in one forward pass, once for all layers that are handed the same ones.

    layers: of the model.
    batch, length: of the tokens that this pass brings; past: how many the cache has seen before; device: of the inputs.
    flat_masks: flash attention takes padding masks [B, K] only.
    """

    layers: LayerMap
    batch: int
    length: int
    past: int
    device: torch.device
    flat_masks: bool = False
    stage: Stage | None = None
    _done: dict[tuple[Any, ...], Any] = field(default_factory=dict)

    def enter(self, stage: Stage) -> None:
        """From now on layers process the tokens of another stage."""
        self.stage = stage
        self._done.clear()

    def cut(self, layer: int, arguments: Arguments) -> Arguments:
        """The arguments of a layer for the tokens that are left."""
        cache, mask = arguments.get("past_key_values"), arguments.get("attention_mask")
        held = tracked(cache, layer)
        if self.stage is None:
            if held is None or (mask is None and held.valid is None):
                return arguments
            return {**arguments, "attention_mask": self._mask(mask, held)}
        new = {name: value if name in OWN else self._per_token(name, value) for name, value in arguments.items()}
        if arguments.get("position_ids") is not None:
            # gaps in them would look like packed sequences to flash attention
            hidden = self.flat_masks and arguments.get("position_embeddings") is not None
            new["position_ids"] = None if hidden else self._per_token("position_ids", arguments["position_ids"])
        if self.layers.attentions[layer] is None:
            return {**new, "attention_mask": self._flat_mask(mask)}
        device = _device_of(arguments, self.device)
        if cache is not None:
            held = track(cache, layer, self.batch, device)
        new["attention_mask"] = self._mask(mask, held)
        if held is not None:
            held.announce(self._slots(device), self.stage.valid, self.length)
        return new

    def _slots(self, device: torch.device) -> Tensor:
        """Place of this pass's tokens in the whole conversation; [B, M]."""
        key = ("slots",)
        if key not in self._done:
            here = self.stage.positions if self.stage is not None else None
            if here is None:
                here = torch.arange(self.length, device=device).expand(self.batch, -1)
            self._done[key] = here + self.past
        slots: Tensor = self._done[key]
        return slots.to(device)

    def _mask(self, mask: Tensor | None, held: TrackedLayer | None) -> Tensor | None:
        """Cut once for all layers that were given the same mask and hold the same past."""
        past = held if held is not None and held.held() else None
        key = ("mask", id(mask), None if past is None else id(past.slots), 0 if past is None else past.held())
        if key not in self._done:
            # what the ids in the key belong to is kept alive with the result
            self._done[key] = (self._cut_mask(mask, past), mask, None if past is None else past.slots)
        found: Tensor | None = self._done[key][0]
        return found

    def _cut_mask(self, mask: Tensor | None, past: TrackedLayer | None) -> Tensor | None:
        rows = self._slots(self.device)
        valid = None if self.stage is None else self.stage.valid
        slots = rows
        if past is not None:
            old, old_valid = past.entries()
            if valid is not None or old_valid is not None:
                old_valid = torch.ones_like(old, dtype=torch.bool) if old_valid is None else old_valid
                valid = torch.ones_like(rows, dtype=torch.bool) if valid is None else valid
                valid = torch.cat([old_valid, valid], dim=1)
            slots = torch.cat([old, rows], dim=1)
        if mask is None and self.flat_masks:
            return valid
        width = 0 if mask is None else mask.shape[-1]
        places = None if self.stage is None else self.stage.positions
        return gather_mask(mask, MaskCut(places, slots, self.past + self.length - width, rows, valid))

    def _per_token(self, name: str, value: Any) -> Any:
        """An argument for the tokens that are left."""
        assert self.stage is not None  # noqa: S101 - asked by `cut`
        if value is None or isinstance(value, bool | int | float | str):
            return value
        key = (name, id(value))
        if key not in self._done:
            self._done[key] = (cut_tokens(value, self.stage.positions, self.batch, self.length), value)
        return self._done[key][0]

    def _flat_mask(self, mask: Tensor | None) -> Tensor | None:
        """Which of the tokens that are left are real, for layers without attention: [B, M], or None if all are."""
        assert self.stage is not None  # noqa: S101 - asked by `cut`
        valid = self.stage.valid
        if mask is None or mask.dim() != 2:
            return valid
        here = take(mask, self.stage.positions.to(mask.device))
        return here if valid is None else here * valid.to(here.device)


def _device_of(arguments: Arguments, default: torch.device) -> torch.device:
    """Where a layer runs, as its rotary embeddings say."""
    rotary = arguments.get("position_embeddings")
    first = rotary[0] if isinstance(rotary, tuple | list) else rotary
    return first.device if isinstance(first, Tensor) else default
