"""The config.json of a known model type, as plain numbers: `vispco info` answers at once, without transformers and torch.

What a file leaves out has the value that transformers' own class gives it. Types, and values of a kind, that are not known
here are left to transformers. A test compares what follows from both, on every type.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

FAMILY = {"qwen2_vl": "Qwen", "qwen2_5_vl": "Qwen", "qwen3_vl": "Qwen3", "llava": "Llava", "gemma3": "Gemma3"}
GENERIC = ("qwen2_vl",)  # all laws are tested on the others

_QWEN_VL = {
    "hidden_size": 8192, "intermediate_size": 29568, "num_hidden_layers": 80, "num_attention_heads": 64,
    "num_key_value_heads": 8, "head_dim": None, "vocab_size": 152064, "use_sliding_window": False,
    "sliding_window": 4096, "max_window_layers": 80, "layer_types": None,
}  # fmt: skip
TEXT: dict[str, dict[str, Any]] = {
    "qwen2_vl_text": _QWEN_VL,
    "qwen2_5_vl_text": _QWEN_VL,
    "qwen3_vl_text": {
        "hidden_size": 4096, "intermediate_size": 22016, "num_hidden_layers": 32, "num_attention_heads": 32,
        "num_key_value_heads": 32, "head_dim": 128, "vocab_size": 151936, "attention_bias": False,
    },
    "qwen2": {
        "hidden_size": 4096, "intermediate_size": 22016, "num_hidden_layers": 32, "num_attention_heads": 32,
        "num_key_value_heads": 32, "head_dim": None, "vocab_size": 151936, "use_sliding_window": False,
        "sliding_window": 4096, "max_window_layers": 28, "layer_types": None, "tie_word_embeddings": False,
    },
    "llama": {
        "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32,
        "num_key_value_heads": None, "head_dim": None, "vocab_size": 32000, "tie_word_embeddings": False,
        "attention_bias": False, "mlp_bias": False,
    },
    "gemma3_text": {
        "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26, "num_attention_heads": 8,
        "num_key_value_heads": 4, "head_dim": 256, "vocab_size": 262208, "sliding_window": 4096, "layer_types": None,
        "attention_bias": False, "use_bidirectional_attention": False,
    },
}  # fmt: skip
_TOWER = {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_channels": 3, "image_size": 224}
_LLAVA_TOWER = {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "image_size": 336}
_PATCHES = {"depth": 32, "in_channels": 3, "patch_size": 14, "spatial_merge_size": 2, "temporal_patch_size": 2}
VISION: dict[str, dict[str, Any]] = {
    "clip_vision_model": {**_TOWER, "patch_size": 32},
    "siglip_vision_model": {**_TOWER, "patch_size": 16, "vision_use_head": True},
    "qwen2_vl_vision": {**_PATCHES, "embed_dim": 1280, "hidden_size": 3584, "mlp_ratio": 4},
    "qwen2_5_vl_vision": {**_PATCHES, "hidden_size": 3584, "intermediate_size": 3420, "out_hidden_size": 3584},
    "qwen3_vl_vision": {
        **_PATCHES, "depth": 27, "hidden_size": 1152, "intermediate_size": 4304, "patch_size": 16,
        "out_hidden_size": 3584, "num_position_embeddings": 2304, "deepstack_visual_indexes": (8, 16, 24),
    },
}  # fmt: skip
# By model type: its own values, the type of its language model, that of its vision tower.
MODELS: dict[str, tuple[dict[str, Any], str, str]] = {
    "qwen2_vl": ({"tie_word_embeddings": False}, "qwen2_vl_text", "qwen2_vl_vision"),
    "qwen2_5_vl": ({"tie_word_embeddings": False}, "qwen2_5_vl_text", "qwen2_5_vl_vision"),
    "qwen3_vl": ({"tie_word_embeddings": False}, "qwen3_vl_text", "qwen3_vl_vision"),
    "llava": (
        {
            "tie_word_embeddings": False, "vision_feature_select_strategy": "default", "vision_feature_layer": -2,
            "multimodal_projector_bias": True,
        },
        "llama",
        "clip_vision_model",
    ),
    "gemma3": ({"tie_word_embeddings": True, "mm_tokens_per_image": 256}, "gemma3_text", "siglip_vision_model"),
}  # fmt: skip
COUNTED = (
    *("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"),
    *("num_key_value_heads", "head_dim", "vocab_size"),
)
FIXED = {"attention_bias": False, "mlp_bias": False, "use_bidirectional_attention": False}  # others: transformers
BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


@dataclass(frozen=True)
class KnownConfig:
    """Numbers under the names that transformers gives them. own: those outside of the two parts."""

    model_type: str
    own: SimpleNamespace
    text: SimpleNamespace
    vision_config: SimpleNamespace
    dtype: str

    def __getattr__(self, name: str) -> Any:
        return getattr(self.own, name)

    def get_text_config(self) -> SimpleNamespace:
        """The language model's part."""
        return self.text


def read_known_config(path: Path) -> KnownConfig | None:
    """The config in a folder or a file; None where it is not of a known type and shape."""
    file = path / "config.json" if path.is_dir() else path
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        return known_config(data) if isinstance(data, dict) else None
    except (OSError, ValueError, TypeError, KeyError, AttributeError, ArithmeticError, RecursionError):
        return None  # transformers says what is wrong with it


def known_config(data: Mapping[str, Any]) -> KnownConfig | None:
    """The config that a config.json's content gives; None where it is not of a known type and shape."""
    kind = data.get("model_type")
    if kind not in MODELS or "auto_map" in data or "quantization_config" in data:
        return None
    values, text_type, vision_type = MODELS[kind]
    flat = data.get("text_config") is None and text_type in ("qwen2_vl_text", "qwen2_5_vl_text")
    text_data = data if flat else data.get("text_config") or {}
    vision_data = data.get("vision_config") or (_LLAVA_TOWER | {"patch_size": 14} if kind == "llava" else {})
    text_type = text_type if flat else str(text_data.get("model_type", text_type))
    vision_type = (
        vision_type if vision_data.get("model_type") == kind else str(vision_data.get("model_type", vision_type))
    )
    if text_type not in TEXT or vision_type not in VISION:
        return None
    own, text = _filled(values, data), _filled(TEXT[text_type], text_data)
    vision = _filled(VISION[vision_type], vision_data)
    if any(getattr(text, name, value) != value for name, value in FIXED.items()):
        return None
    text.model_type, vision.model_type = text_type, vision_type
    text.num_key_value_heads = text.num_key_value_heads or text.num_attention_heads
    text.head_dim = text.head_dim or text.hidden_size // text.num_attention_heads
    text.windows = _windows(text, text_data)
    if kind != "gemma3":  # older files have it in the language model's part
        own.tie_word_embeddings = bool(own.tie_word_embeddings or text_data.get("tie_word_embeddings"))
    given = text_data.get("dtype") or text_data.get("torch_dtype") or data.get("dtype") or data.get("torch_dtype")
    dtype = str(given or "float32").removeprefix("torch.")
    sizes = [value for name, value in vars(vision).items() if name not in ("model_type", "deepstack_visual_indexes")]
    sizes += [value for name, value in vars(text).items() if name in COUNTED]
    whole = all(isinstance(value, int) and value >= 0 for value in sizes)
    whole = whole and isinstance(getattr(vision, "deepstack_visual_indexes", ()), list | tuple)
    if dtype not in BYTES or not whole or len(text.windows) != text.num_hidden_layers:
        return None
    return KnownConfig(kind, own, text, vision, dtype)


def _filled(defaults: Mapping[str, Any], data: Mapping[str, Any]) -> SimpleNamespace:
    return SimpleNamespace(**{name: data.get(name, default) for name, default in defaults.items()})


def _windows(text: SimpleNamespace, data: Mapping[str, Any]) -> tuple[int | None, ...]:
    """The sliding window of each layer, None where attention is full."""
    layers = range(text.num_hidden_layers)
    window = getattr(text, "sliding_window", None)
    if text.model_type == "gemma3_text":
        pattern = data.get("sliding_window_pattern", 6)
        sliding = [bool((layer + 1) % pattern) for layer in layers]
    else:
        window = window if getattr(text, "use_sliding_window", False) else None
        sliding = [window is not None and layer >= text.max_window_layers for layer in layers]
    types = getattr(text, "layer_types", None)
    if types is not None:
        sliding = [each == "sliding_attention" for each in types]
    return tuple(window if slides else None for slides in sliding)
