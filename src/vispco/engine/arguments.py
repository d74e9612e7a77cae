"""Arguments of decoder layers (masks, rotary embeddings, cache), cut to the tokens that are left."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn import functional

from vispco.core.errors import UnsupportedModelError
from vispco.core.indexing import cut_tokens, take
from vispco.engine.cache import PrunedLayer, track, tracked
from vispco.engine.compensation import with_bias
from vispco.engine.gather import Stage, causal_mask, gather_mask, let_fill_see_itself
from vispco.engine.kept import KeptTokens, ShownKeys, SlotNotes, cut_columns, joined_bias
from vispco.engine.layer_map import LayerMap

Arguments = dict[str, Any]
_OWN = ("hidden_states", "attention_mask", "past_key_values", "shared_kv_states")
"""Arguments that are not simply cut token by token."""
T = TypeVar("T")


@dataclass(eq=False)
class ArgumentCutter:
    """Cuts the arguments of layers in one forward pass, once for all layers that are handed the same ones.

    It serves a pruned prefill, and by itself a pass on a cache that was pruned before: a decoding step, or text alone.

    layers: of the model.
    batch, length: of the tokens that this pass brings; past: how many the cache has seen before; device: of the inputs.
    flat_masks: flash attention takes padding masks [B, K] only.
    dtype: of additive masks. visual: bool [B, length], tokens of this pass that are visual; None if none is.
    """

    layers: LayerMap
    batch: int
    length: int
    past: int
    device: torch.device
    flat_masks: bool = False
    dtype: torch.dtype = torch.float32
    visual: Tensor | None = None
    stage: Stage | None = None
    _new: KeptTokens | None = None  # the tokens of this stage, as caches note them
    written: int = 0  # how many of the last tokens a generation has written itself
    _shown: dict[int, ShownKeys] = field(default_factory=dict)
    _done: dict[tuple[Any, ...], Any] = field(default_factory=dict)

    def enter(self, stage: Stage, bias: Tensor | None = None) -> None:
        """From now on layers process the tokens of another stage; bias: [B, M], what text adds to its logits for them."""
        slots = stage.positions + self.past if self.past else stage.positions
        self.stage, self._new = stage, KeptTokens(slots, stage.valid, self.past + self.length, self.written, bias)
        self._done.clear()

    def cut(self, layer: int, arguments: Arguments) -> Arguments:
        """The arguments of a layer for the tokens that are left."""
        cache, mask = arguments.get("past_key_values"), arguments.get("attention_mask")
        held = tracked(cache, layer)
        if held is not None:
            held.expected = True
        if self.layers.key_sources:
            if layer in self.layers.key_sources:
                return self._cut_shared(layer, arguments)
            kept = (None, 0, 0) if held is None else (held.kept, held.first, held.held() + self.length)
            self._shown[layer] = ShownKeys(self.stage, *kept)
        if self.stage is None or self._new is None:
            if held is None or not held.held():
                return arguments
            if mask is None and held.kept.valid is None and held.kept.bias is None:
                return arguments
            return {**arguments, "attention_mask": self._cut_columns(mask, held)}
        if layer not in self.layers.attentions:
            valid = self.stage.valid
            if mask is not None and mask.dim() == 2:  # which of the tokens that are left are real
                here = take(mask, self.stage.positions.to(mask.device))
                valid = here if valid is None else here * valid.to(here.device)
            return self._cut_values(arguments, valid)
        rotary: Any = arguments.get("position_embeddings")  # they lie where the layer runs
        first = rotary[0] if type(rotary) in (tuple, list) else rotary
        coming = self._new.to(getattr(first, "device", self.device))
        if cache is not None:
            held = track(cache, layer, coming)
            held.expected = True
        made = self.stage.valid is not None or self._new.bias is not None
        causal = getattr(self.layers.attentions[layer], "is_causal", True)
        if mask is None and made and not self.flat_masks and not causal:  # its tokens see each other in both directions
            shape = (1, 1, self.length, self.past + self.length)
            mask = self._once(("open",), lambda: torch.ones(shape, dtype=torch.bool, device=self.device))
        if held is None or not held.held():  # layers that are handed the same get the same
            given = (mask, *arguments.values())
            key = ("all", *map(id, given))
            new = self._once(key, lambda: self._cut_values(arguments, self._cut_mask(mask, None)), *given).copy()
        else:
            new = self._cut_values(arguments, self._cut_mask(mask, held))
        if held is not None:
            held.pending = (coming, self.length)
        return new

    def _cut_values(self, arguments: Arguments, mask: Tensor | None) -> Arguments:
        """Arguments with one value per token, cut to the tokens that are left; `mask` has been cut."""
        assert self.stage is not None  # noqa: S101 - asked by `cut`
        positions, new = self.stage.positions, {**arguments, "attention_mask": mask}
        for name, value in arguments.items():
            if name == "position_ids" and self.flat_masks and arguments.get("position_embeddings") is not None:
                new[name] = None  # gaps in them would look like packed sequences to flash attention
            elif name not in _OWN and value is not None and not isinstance(value, bool | int | float | str):
                cut = partial(cut_tokens, value, positions, self.batch, self.length)
                new[name] = self._once((name, id(value)), cut, value)
        return new

    def _cut_shared(self, layer: int, arguments: Arguments) -> Arguments:
        """The arguments of a layer that uses the keys of an earlier one."""
        source, mask = self.layers.key_sources[layer], arguments.get("attention_mask")
        cache, shown = arguments.get("past_key_values"), self._shown[source]
        if self.stage is not None and self._new is not None:
            if self.past:
                raise UnsupportedModelError(
                    "A picture came on top of a cache that is in use, which models whose layers share keys do not serve while "
                    "they are pruned. Start again from the whole conversation."
                )
            if cache is not None and shown.stage is not self.stage:
                notes = SlotNotes.of(self.stage, self.length, self._new.bias)
                track(cache, source, self._new).closed[layer] = notes
            return self._cut_values(arguments, self._cut_mask(mask, None))
        held = tracked(cache, source)
        if held is None or shown.kept is None:
            return arguments
        slots, valid, bias = shown.entries(held.closed.get(layer))
        if mask is None and bias is None and (valid is None or self.flat_masks):
            return {**arguments, "attention_mask": valid}
        width = self.past + self.length if mask is None else mask.shape[-1]
        cut = gather_mask(mask, slots, self._rows()[0], offset=self.past + self.length - width, valid=valid)
        return {**arguments, "attention_mask": self._biased(cut, bias, slots)}

    def _cut_columns(self, mask: Tensor | None, held: PrunedLayer) -> Tensor | None:
        """No token of this pass is dropped; each attends to what the layer holds: a decoding step, or text alone."""
        kept, first, number = held.kept, held.first, held.held() + self.length
        if mask is not None:
            offset = self.past + self.length - mask.shape[-1]  # the position of the mask's first column
            closed = torch.finfo(mask.dtype).min if mask.is_floating_point() else 0
            pad = partial(functional.pad, mask, (offset + 1, 0), value=closed)  # with closed columns in front
            widened = self._once(("widened", id(mask)), pad, mask)
            key = ("columns", id(mask), id(kept), first, number)

            def cut() -> Tensor | None:
                opened = cut_columns(widened, kept.columns(number, first))
                if self.length > 1 and opened.dim() > 2 and kept.valid is not None:  # no row of several is empty
                    opened = let_fill_see_itself(opened)
                return self._biased(opened, kept.biases(number, first), None)

            return self._once(key, cut, mask, kept)
        if (self.length == 1 and self.visual is None) or self.flat_masks:
            place = ("open", id(kept), first, number)
            opened = self._once(place, lambda: kept.open(number, first, self.dtype), kept)
            return opened[:, 0, 0] if self.flat_masks and opened is not None else opened
        return self._cut_mask(None, held)

    def _cut_mask(self, mask: Tensor | None, past: PrunedLayer | None) -> Tensor | None:
        """The mask of a layer for the tokens that are left, cut once for all layers with the same mask and the same cached tokens."""
        kept, first, number = (None, 0, 0) if past is None else (past.kept, past.first, past.held())
        key = ("mask", id(mask), id(kept), first, number)
        if key in self._done:
            known: Tensor | None = self._done[key][0]
            return known
        rows, valid = self._rows()
        slots, bias = rows, None if self._new is None else self._new.bias
        if past is not None:
            old, old_valid = past.entries()
            bias = joined_bias(past.kept.biases(past.held(), past.first), old, bias, rows)
            if valid is not None or old_valid is not None:
                old_valid = torch.ones_like(old, dtype=torch.bool) if old_valid is None else old_valid
                valid = torch.ones_like(rows, dtype=torch.bool) if valid is None else valid
                valid = torch.cat([old_valid, valid], dim=1)
            slots = torch.cat([old, rows], dim=1)
        found = valid
        if mask is not None or not self.flat_masks:
            width = self.past + self.length if mask is None else mask.shape[-1]
            places = None if self.stage is None else self.stage.positions
            offset = self.past + self.length - width
            found = gather_mask(mask, slots, rows, rows=places, offset=offset, valid=valid)
            found = self._biased(found, bias, slots)
        self._done[key] = (found, (mask, kept))
        return found

    def _biased(self, mask: Tensor | None, bias: Tensor | None, slots: Tensor | None) -> Tensor | None:
        """A mask [B or 1, 1, M, K] with a bias [B, K] in the rows of text; None is causal, with keys at the positions `slots`."""
        if bias is None:
            return mask
        if mask is None:
            assert slots is not None  # noqa: S101 - where there may be no mask
            mask = causal_mask(slots, self._rows()[0])
        text, visual, stage = None, self.visual, self.stage
        if visual is not None:  # which of this pass's tokens are text: bool [B, M]
            text = self._once(("text",), lambda: ~(visual if stage is None else visual.gather(1, stage.positions)))
        return with_bias(mask, bias, text, self.dtype)

    def _rows(self) -> tuple[Tensor, Tensor | None]:
        """Slots of this pass's tokens, and which of them are not padding (fill)."""
        if self._new is not None:
            return self._new.slots, self._new.valid
        return torch.arange(self.past, self.past + self.length, device=self.device).expand(self.batch, -1), None

    def _once(self, key: tuple[Any, ...], compute: Callable[[], T], *about: object) -> T:
        """Compute once for each key. about: the objects whose ids are in the key, kept alive with the result."""
        known = self._done.get(key)
        if known is None:
            known = self._done[key] = (compute(), about)
        found: T = known[0]
        return found
