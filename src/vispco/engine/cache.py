"""Key-value cache layers that know which tokens they still hold.

transformers sizes its masks and positions by the number of tokens that a cache layer has *seen*; a pruned layer holds
fewer. These two layers tell the two apart: `get_seq_length` is what was seen, `keys.shape[-2]` is what is held, and
`kept` says which. The state lives in the cache itself, so beam search may reorder it, a conversation may continue on
it, and the engine keeps nothing between two calls.
"""

from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer, DynamicSlidingWindowLayer, LinearAttentionLayer

from vispco.core.errors import PrunerStateError, UnsupportedModelError
from vispco.engine.kept import KeptTokens, SlotNotes

SUPPORTED_LAYERS: tuple[type, ...] = (DynamicLayer, DynamicSlidingWindowLayer, LinearAttentionLayer)
"""The last holds no tokens but one state, and is left as it is."""


class PrunedLayer(DynamicLayer):  # type: ignore[misc]
    """A growing cache layer of which the prompt's pruned tokens were never stored.

    kept: the original position (slot) of the first entries; those beyond are the newest tokens, in order. Layers that
    hold the same share it. first: how many of them, from the first on, a sliding window has left behind.
    """

    def __init__(self, kept: KeptTokens, seen: int, **options: Any) -> None:
        super().__init__(**options)
        self._start(kept, seen)

    def _start(self, kept: KeptTokens, seen: int) -> None:
        self.kept, self.first, self.seen = kept, 0, seen
        self.closed: dict[int, SlotNotes] = {}  # {layer that uses these keys: what it sees of them}
        self.expected = False  # whether the pruner has prepared the next update
        self.pending: tuple[KeptTokens, int] | None = None  # what it brings, and how many tokens that stands for

    def held(self) -> int:
        return 0 if self.keys is None or self.keys.numel() == 0 else int(self.keys.shape[-2])

    def entries(self) -> tuple[Tensor, Tensor | None]:
        """Slot and validity of every entry held now; [B, held]."""
        return self.kept.entries(self.held(), self.first)

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Store the tokens that the pruner has announced; without that they are the next in line."""
        if not self.expected:
            raise PrunerStateError(
                "This cache holds a pruned prompt, but the pruner is no longer on the model. Keep it on until the generation "
                "has ended (stay inside its `with` block), or start again from the prompt."
            )
        self.expected = False
        if self.pending is None:
            self.seen += key_states.shape[-2]
        else:
            new, advance = self.pending
            self.kept = self.kept.followed_by(new, self.held(), self.first)
            self.first, self.seen, self.pending = 0, self.seen + advance, None
        out: tuple[Tensor, Tensor] = super().update(key_states, value_states, *args, **kwargs)
        return out

    def get_seq_length(self) -> int:
        return self.seen

    def crop(self, tokens_to_remove: int) -> None:
        """Forget the last tokens, which assisted decoding has rejected."""
        number = abs(tokens_to_remove)
        newest = max(self.held() - max(0, self.kept.number - self.first), 0)  # those after `kept`
        inside = max(number - newest, 0)
        if inside > self.kept.tail:
            raise UnsupportedModelError(
                f"The cache cannot be cropped by {number} tokens: that reaches into a pruned prompt. "
                "Crop generated tokens only, or start again from the prompt."
            )
        self.kept = self.kept.without(inside) if inside else self.kept
        self.seen -= number
        DynamicLayer.crop(self, tokens_to_remove)

    def reorder_cache(self, beam_idx: Tensor) -> None:
        super().reorder_cache(beam_idx)
        self._select(beam_idx)

    def batch_select_indices(self, indices: Tensor) -> None:
        super().batch_select_indices(indices)
        self._select(indices)

    def _select(self, index: Tensor) -> None:
        self.kept = self.kept.select(index)
        self.closed = {layer: slots.select(index) for layer, slots in self.closed.items()}

    def batch_repeat_interleave(self, repeats: int) -> None:
        super().batch_repeat_interleave(repeats)
        self.kept = self.kept.repeated(repeats)
        self.closed = {layer: slots.repeated(repeats) for layer, slots in self.closed.items()}

    def reset(self) -> None:
        super().reset()
        self._start(self.kept.nothing(), 0)


class PrunedSlidingLayer(PrunedLayer, DynamicSlidingWindowLayer):  # type: ignore[misc]
    """The same for a sliding window. It holds the newest `sliding_window - 1` *entries*, which reach at least as far
    back as the window does in tokens; the mask takes out what lies beyond it.
    """

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        out = super().update(key_states, value_states, *args, **kwargs)
        if self.record_past:  # it may be taken back: all is held, and the mask takes out what lies beyond the window
            out = self.keys, self.values
        self.cumulative_length = self.seen
        self.first += out[0].shape[-2] - self.held()
        return out

    def crop(self, tokens_to_remove: int) -> None:
        super().crop(tokens_to_remove)
        self.cumulative_length = self.seen


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


def tracked(cache: Cache | None, layer: int) -> PrunedLayer | None:
    """The layer of the cache if it is one that was pruned, else None."""
    if cache is None or layer >= len(cache.layers):
        return None
    found: Any = cache.layers[layer]
    return found if isinstance(found, PrunedLayer) else None


def track(cache: Cache, layer: int, new: KeptTokens) -> PrunedLayer:
    """Put a pruned layer in place of a plain one, with everything that it holds; `new` is what will come next."""
    old = cache_layer(cache, layer)
    if isinstance(old, PrunedLayer):
        return old
    seen, kept = int(old.get_seq_length()), new.nothing()
    held = 0 if old.keys is None or old.keys.numel() == 0 else old.keys.shape[-2]
    if held:
        slots = torch.arange(seen - held, seen, device=new.slots.device)
        kept = KeptTokens(slots.expand(new.slots.shape[0], -1), None, seen)
    if isinstance(old, DynamicSlidingWindowLayer):
        made: PrunedLayer = PrunedSlidingLayer(kept, seen, sliding_window=old.sliding_window)
        made.cumulative_length, made.record_past = seen, old.record_past
    else:
        made = PrunedLayer(kept, seen)
    if old.is_initialized:
        made.lazy_initialization(old.keys, old.values)
        made.keys, made.values = old.keys, old.values
    cache.layers[layer] = made
    return made
