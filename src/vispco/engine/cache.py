"""Key-value cache layers that know which tokens they still hold.

transformers sizes its masks and positions by the number of tokens that a cache layer has *seen*; a pruned layer holds
fewer. These two layers tell the two apart: `get_seq_length` is what was seen, `keys.shape[-2]` is what is held, and
`slots` says which. The state lives in the cache itself, so beam search may reorder it, a conversation may continue on
it, and the engine keeps nothing between two calls.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer, DynamicSlidingWindowLayer, LinearAttentionLayer

from vispco.errors import UnsupportedModelError

SUPPORTED_LAYERS: tuple[type, ...] = (DynamicLayer, DynamicSlidingWindowLayer, LinearAttentionLayer)
"""The last holds no tokens but one state, and is left as it is."""


class _Tracked:
    """What the two kinds of pruned layer share: the original position (slot) of every entry they hold.

    slots: int64 [B, n], valid: bool [B, n] or None if all are; entries beyond n are the newest tokens, in order.
    """

    keys: Tensor | None
    slots: Tensor
    valid: Tensor | None
    seen: int

    def _start(self, slots: Tensor, valid: Tensor | None, seen: int) -> None:
        self.slots, self.valid, self.seen = slots, valid, seen
        self._pending: tuple[Tensor, Tensor | None, int] | None = None

    def held(self) -> int:
        return 0 if self.keys is None or self.keys.numel() == 0 else int(self.keys.shape[-2])

    def announce(self, slots: Tensor, valid: Tensor | None, advance: int) -> None:
        """Say which slots the next update brings ([B, m]), and how many tokens they stand for."""
        self._pending = (slots, valid, advance)

    def entries(self) -> tuple[Tensor, Tensor | None]:
        """Slot and validity of every entry held now; [B, held]."""
        tail = self.held() - self.slots.shape[1]
        if tail <= 0:
            return self.slots, self.valid
        new = torch.arange(self.seen - tail, self.seen, device=self.slots.device).expand(self.slots.shape[0], -1)
        valid = self.valid
        if valid is not None:
            valid = torch.cat([valid, valid.new_ones(valid.shape[0], tail)], dim=1)
        return torch.cat([self.slots, new], dim=1), valid

    def _take_pending(self, incoming: int) -> None:
        """Before an update: fold what was announced into `slots`; without it the tokens are the next in line."""
        if self._pending is None:
            self.seen += incoming
            return
        slots, valid = self.entries()
        new, new_valid, advance = self._pending
        if valid is not None or new_valid is not None:
            valid = torch.ones_like(slots, dtype=torch.bool) if valid is None else valid
            new_valid = torch.ones_like(new, dtype=torch.bool) if new_valid is None else new_valid
            self.valid = torch.cat([valid, new_valid], dim=1)
        self.slots, self.seen, self._pending = torch.cat([slots, new], dim=1), self.seen + advance, None

    def _select(self, index: Tensor) -> None:
        index = index.to(self.slots.device)
        self.slots = self.slots[index]
        self.valid = None if self.valid is None else self.valid[index]

    def _refuse_crop(self, tokens: int) -> None:
        if abs(tokens) > self.held() - self.slots.shape[1]:
            raise UnsupportedModelError(
                f"The cache cannot be cropped by {abs(tokens)} tokens: that reaches into a pruned prompt. "
                "Crop generated tokens only, or start again from the prompt."
            )


class PrunedLayer(_Tracked, DynamicLayer):  # type: ignore[misc]
    """A growing cache layer of which the prompt's pruned tokens were never stored."""

    def __init__(self, slots: Tensor, valid: Tensor | None, seen: int) -> None:
        DynamicLayer.__init__(self)
        self._start(slots, valid, seen)

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        self._take_pending(key_states.shape[-2])
        out: tuple[Tensor, Tensor] = DynamicLayer.update(self, key_states, value_states, *args, **kwargs)
        return out

    def get_seq_length(self) -> int:
        return self.seen

    def crop(self, tokens_to_remove: int) -> None:
        self._refuse_crop(tokens_to_remove)
        DynamicLayer.crop(self, tokens_to_remove)
        self.seen -= abs(tokens_to_remove)

    def reorder_cache(self, beam_idx: Tensor) -> None:
        DynamicLayer.reorder_cache(self, beam_idx)
        self._select(beam_idx)

    def batch_repeat_interleave(self, repeats: int) -> None:
        DynamicLayer.batch_repeat_interleave(self, repeats)
        self._select(torch.arange(self.slots.shape[0], device=self.slots.device).repeat_interleave(repeats))

    def batch_select_indices(self, indices: Tensor) -> None:
        DynamicLayer.batch_select_indices(self, indices)
        self._select(indices)

    def reset(self) -> None:
        DynamicLayer.reset(self)
        self._start(self.slots[:, :0], None, 0)


class PrunedSlidingLayer(_Tracked, DynamicSlidingWindowLayer):  # type: ignore[misc]
    """The same for a sliding window. It holds the newest `sliding_window - 1` *entries*, which reach at least as far
    back as the window does in tokens; the mask takes out what lies beyond it.
    """

    def __init__(self, sliding_window: int, slots: Tensor, valid: Tensor | None, seen: int) -> None:
        DynamicSlidingWindowLayer.__init__(self, sliding_window=sliding_window)
        self._start(slots, valid, seen)

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        if self.record_past:
            raise UnsupportedModelError(
                "Assisted decoding on a sliding-window model rolls the cache back, which a pruned cache cannot do. "
                "Generate without an assistant model, or without the pruner."
            )
        self._take_pending(key_states.shape[-2])
        out: tuple[Tensor, Tensor] = DynamicSlidingWindowLayer.update(self, key_states, value_states, *args, **kwargs)
        self.cumulative_length = self.seen
        tail = out[0].shape[-2] - self.slots.shape[1]  # entries after `slots`, before the window cut them
        kept = max(self.held() - tail, 0)
        self.slots = self.slots[:, self.slots.shape[1] - kept :]
        self.valid = None if self.valid is None else self.valid[:, self.valid.shape[1] - kept :]
        return out

    def crop(self, tokens_to_remove: int) -> None:
        self._refuse_crop(tokens_to_remove)
        DynamicSlidingWindowLayer.crop(self, tokens_to_remove)
        self.seen -= abs(tokens_to_remove)
        self.cumulative_length = self.seen

    reorder_cache = PrunedLayer.reorder_cache
    batch_repeat_interleave = PrunedLayer.batch_repeat_interleave
    batch_select_indices = PrunedLayer.batch_select_indices

    def reset(self) -> None:
        DynamicSlidingWindowLayer.reset(self)
        self._start(self.slots[:, :0], None, 0)


TrackedLayer = PrunedLayer | PrunedSlidingLayer


def check_cache(cache: Any) -> None:
    """Refuse, before any compute, a cache whose layers cannot hold fewer tokens than they have seen."""
    if cache is None:
        return
    if not isinstance(cache, Cache):
        raise UnsupportedModelError(
            f"past_key_values is a {type(cache).__name__}; the pruner needs a transformers DynamicCache. "
            "Leave past_key_values out, or pass DynamicCache(config=model.config)."
        )
    if getattr(cache, "offloading", False):
        raise UnsupportedModelError(
            "The cache offloads its layers to the host, which pruning does not serve. Use a DynamicCache without offloading."
        )
    for i, layer in enumerate(cache.layers):
        if type(layer) not in (*SUPPORTED_LAYERS, PrunedLayer, PrunedSlidingLayer):
            raise UnsupportedModelError(
                f"Layer {i} of the cache is a {type(layer).__name__}; pruning needs a cache that grows "
                "(DynamicCache, the default). Remove cache_implementation='static' (or 'quantized', ...) and compile options."
            )
    replicate = getattr(cache, "layer_class_to_replicate", None)
    if replicate is not None and replicate not in SUPPORTED_LAYERS:
        raise UnsupportedModelError(
            f"The cache makes layers of type {replicate.__name__}; pruning needs DynamicCache, the default."
        )


def cache_layer(cache: Cache, layer: int) -> Any:
    """The cache's layer, made now if the cache makes them on first use."""
    while len(cache.layers) <= layer:
        cache.layers.append(cache.layer_class_to_replicate())
    return cache.layers[layer]


def tracked(cache: Cache | None, layer: int) -> TrackedLayer | None:
    """The layer of the cache if it is one that was pruned, else None."""
    if cache is None or layer >= len(cache.layers):
        return None
    found = cache.layers[layer]
    return found if isinstance(found, PrunedLayer | PrunedSlidingLayer) else None


def track(cache: Cache, layer: int, batch: int, device: torch.device) -> TrackedLayer:
    """Put a tracked layer in place of a plain one, with everything that it holds."""
    old = cache_layer(cache, layer)
    if isinstance(old, PrunedLayer | PrunedSlidingLayer):
        return old
    seen = int(old.get_seq_length())
    held = 0 if old.keys is None or old.keys.numel() == 0 else old.keys.shape[-2]
    slots = torch.arange(seen - held, seen, device=device).expand(batch, -1)
    new: TrackedLayer
    if isinstance(old, DynamicSlidingWindowLayer):
        new = PrunedSlidingLayer(old.sliding_window, slots, None, seen)
        new.cumulative_length = seen
    else:
        new = PrunedLayer(slots, None, seen)
    if old.is_initialized:
        new.lazy_initialization(old.keys, old.values)
        new.keys, new.values = old.keys, old.values
    cache.layers[layer] = new
    return new
