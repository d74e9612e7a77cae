"""The size of a prefill in whole numbers, without torch: FLOPs by both formulas, and bytes of the cache.

The numbers are those of `vispco.cost` for one sample whose tokens leave at the entry of a layer. Models whose layers are
not all alike are counted there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from vispco.cost.layer_flops import exact_layer_flops, paper_layer_flops
from vispco.timing.estimates.known_config import BYTES, KnownConfig


@dataclass(frozen=True)
class PrefillPrice:
    """FLOPs of each decoder layer: `linear` per token, `pairs` per pair of tokens."""

    linear: tuple[int, ...]
    pairs: tuple[int, ...]

    @property
    def num_layers(self) -> int:
        return len(self.linear)

    def layer(self, index: int, tokens: int) -> int:
        """One layer that processes so many tokens."""
        return tokens * (self.linear[index] + self.pairs[index] * tokens)

    def full(self, text: int, visual: int) -> int:
        """The unpruned prompt."""
        return sum(self.layer(i, text + visual) for i in range(self.num_layers))

    def dropped(self, text: int, visual: int, layer: int, keep: int) -> int:
        """The prompt with `keep` visual tokens from a layer on."""
        return sum(self.layer(i, text + (visual if i < layer else keep)) for i in range(self.num_layers))

    def floor(self, text: int, visual: int) -> float:
        """The lowest fraction: layer 0 sees every token, the others text alone."""
        full = self.full(text, visual)
        return self.dropped(text, visual, 1, 0) / (full or 1)

    def most(self, text: int, visual: int, layer: int, budget: float) -> int:
        """How many visual tokens the layers from one on may have at a fraction of the price; 0 where none."""
        limit = budget * self.full(text, visual)
        low, high = 0, visual
        while low < high:
            middle = (low + high + 1) // 2
            fits = self.dropped(text, visual, layer, middle) <= limit
            low, high = (middle, high) if fits else (low, middle - 1)
        return low


@dataclass(frozen=True)
class PrefillSize:
    """The sizes of a language model, its prices by formula, and what its cache keeps.

    windows: of each layer, in tokens; None where attention is full. entry_bytes: of a token in the cache of each layer.
    """

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    windows: tuple[int | None, ...]
    dtype_bytes: int
    prices: dict[str, PrefillPrice]
    entry_bytes: tuple[int, ...]
    not_counted: str = ""

    def kv_bytes(self, tokens: Sequence[int]) -> int:
        """Bytes of the cache, by the tokens that each layer processes. A layer with a window of w keeps w - 1."""
        return sum(
            (count if window is None else min(count, window - 1)) * size
            for count, window, size in zip(tokens, self.windows, self.entry_bytes, strict=True)
        )


def known_prefill_size(config: KnownConfig, dtype: str | None = None) -> PrefillSize:
    """Of a known model type: grouped-query attention, and a feed-forward network with a gate."""
    text = config.text
    D, H, K, d, F = (
        text.hidden_size,
        text.num_attention_heads,
        text.num_key_value_heads,
        text.head_dim,
        text.intermediate_size,
    )
    number, size = text.num_hidden_layers, BYTES[dtype or config.dtype]
    by_formula = {"exact": exact_layer_flops(D, H, K, d, F), "paper": paper_layer_flops(D)}
    prices = {
        name: PrefillPrice((attention + network,) * number, (pairs,) * number)
        for name, (attention, pairs, network) in by_formula.items()
    }
    entry = (2 * K * d * size,) * number
    return PrefillSize(number, D, H, K, d, F, text.windows, size, prices, entry)


def prefill_size(config: Any, dtype: str | None = None) -> PrefillSize:
    """Of a transformers config, as `vispco.cost` counts it."""
    import torch  # noqa: PLC0415 - seconds, only for what is not known

    from vispco import cost as costs  # noqa: PLC0415
    from vispco.cost import Dimensions  # noqa: PLC0415

    size = Dimensions.from_config(config, dtype=None if dtype is None else getattr(torch, dtype))
    prices: dict[str, PrefillPrice] = {}
    for name in ("exact", "paper"):
        cost: Any = costs.get(name, size)
        attention, pairs, network = cost.sizes
        prices[name] = PrefillPrice(tuple(a + n for a, n in zip(attention, network, strict=True)), tuple(pairs))
    alike = [2 * size.kv_heads * size.head_dim] * size.num_layers
    entries = alike if size.layers is None else [layer.entries for layer in size.layers]
    return PrefillSize(
        layers=size.num_layers,
        hidden=size.hidden,
        heads=size.heads,
        kv_heads=size.kv_heads,
        head_dim=size.head_dim,
        ffn=size.ffn,
        windows=size.windows,
        dtype_bytes=size.dtype_bytes,
        prices=prices,
        entry_bytes=tuple(number * size.dtype_bytes for number in entries),
        not_counted=size.not_counted,
    )
