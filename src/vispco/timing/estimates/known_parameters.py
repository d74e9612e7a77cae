"""Parameters of known model types, by their sizes: the same as those of the model that transformers builds."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

from vispco.timing.estimates.known_config import KnownConfig


def known_parameters(config: KnownConfig) -> tuple[int, int]:
    """(all parameters, those outside of the language model)."""
    text, vision = config.text, config.vision_config
    width, vocabulary = text.hidden_size, text.vocab_size
    language = vocabulary * width * (1 if config.tie_word_embeddings else 2) + _decoder(text)
    outside = TOWERS[vision.model_type](vision)
    if config.model_type == "llava":
        several = isinstance(config.vision_feature_layer, list)
        entering = vision.hidden_size * (len(config.vision_feature_layer) if several else 1)
        outside += entering * width + width * width + 2 * width * int(config.multimodal_projector_bias)
    if config.model_type == "gemma3":
        outside += vision.hidden_size * width + vision.hidden_size
    return language + outside, outside


def _decoder(text: SimpleNamespace) -> int:
    """All layers and the norm behind them, without the embedding."""
    width, keys = text.hidden_size, text.num_key_value_heads * text.head_dim
    queries = text.num_attention_heads * text.head_dim
    layer = 2 * width * (queries + keys) + 3 * width * text.intermediate_size
    if text.model_type.startswith("qwen2"):
        layer += queries + 2 * keys  # biases
    layer += (4 if text.model_type == "gemma3_text" else 2) * width  # norms
    if text.model_type in ("gemma3_text", "qwen3_vl_text"):
        layer += 2 * text.head_dim  # norms of queries and keys
    return int(text.num_hidden_layers * layer + width)


def _linear(entering: int, leaving: int) -> int:
    return entering * leaving + leaving


def _transformer(width: int, hidden: int) -> int:
    """A layer with plain attention, two layer norms and a plain feed-forward network, biases everywhere."""
    return 4 * _linear(width, width) + 4 * width + _linear(width, hidden) + _linear(hidden, width)


def _patches(vision: SimpleNamespace) -> int:
    return int((vision.image_size // vision.patch_size) ** 2)


def _clip(vision: SimpleNamespace) -> int:
    width = vision.hidden_size
    patch = vision.num_channels * vision.patch_size**2 * width
    layers = vision.num_hidden_layers * _transformer(width, vision.intermediate_size)
    return int(width + patch + (_patches(vision) + 1) * width + 4 * width + layers)


def _siglip(vision: SimpleNamespace) -> int:
    width, hidden = vision.hidden_size, vision.intermediate_size
    patch = _linear(vision.num_channels * vision.patch_size**2, width)
    layers = vision.num_hidden_layers * _transformer(width, hidden)
    pooling = width + _transformer(width, hidden) - 2 * width  # a query, and one layer with a single norm
    return int(patch + _patches(vision) * width + layers + 2 * width + (pooling if vision.vision_use_head else 0))


def _qwen_patch(vision: SimpleNamespace, width: int) -> int:
    return int(vision.in_channels * vision.temporal_patch_size * vision.patch_size**2 * width)


def _merger(vision: SimpleNamespace, width: int, leaving: int) -> int:
    merged = width * vision.spatial_merge_size**2
    return _linear(merged, merged) + _linear(merged, leaving)


def _qwen2(vision: SimpleNamespace) -> int:
    width = vision.embed_dim
    layers = vision.depth * _transformer(width, int(width * vision.mlp_ratio))
    return int(_qwen_patch(vision, width) + layers + 2 * width + _merger(vision, width, vision.hidden_size))


def _qwen2_5(vision: SimpleNamespace) -> int:
    width, hidden = vision.hidden_size, vision.intermediate_size
    gated = 2 * _linear(width, hidden) + _linear(hidden, width)
    layers = vision.depth * (4 * _linear(width, width) + 2 * width + gated)
    return int(_qwen_patch(vision, width) + layers + width + _merger(vision, width, vision.out_hidden_size))


def _qwen3(vision: SimpleNamespace) -> int:
    width, merged = vision.hidden_size, vision.hidden_size * vision.spatial_merge_size**2
    layers = vision.depth * _transformer(width, vision.intermediate_size)
    levels = len(vision.deepstack_visual_indexes)
    mergers = (1 + levels) * _merger(vision, width, vision.out_hidden_size) + 2 * width + levels * 2 * merged
    return int(_qwen_patch(vision, width) + width + vision.num_position_embeddings * width + layers + mergers)


TOWERS: dict[str, Callable[[SimpleNamespace], int]] = {
    "clip_vision_model": _clip,
    "siglip_vision_model": _siglip,
    "qwen2_vl_vision": _qwen2,
    "qwen2_5_vl_vision": _qwen2_5,
    "qwen3_vl_vision": _qwen3,
}
