"""Released models whose language model is another one than the default of their class, as changes of its tiny twin."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Variant:
    """model_type: of the class. text: `model_type` of the language model, None for the default. changes: of the small config.

    token_types: whether prompts come with token types.
    """

    model_type: str
    text: str | None = None
    changes: dict[str, Any] = field(default_factory=dict)
    token_types: bool = True


SHARED = {
    "num_kv_shared_layers": 2,
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"],
}
VARIANTS: dict[str, Variant] = {
    "LLaVA with Mistral": Variant("llava", "mistral"),
    "LLaVA with Qwen2": Variant("llava", "qwen2"),
    "LLaVA with Phi": Variant("llava", "phi"),
    "LLaVA with OLMo2": Variant("llava", "olmo2"),
    "LLaVA-NeXT with Granite (Granite Vision 3)": Variant("llava_next", "granite"),
    "LLaVA-NeXT with Mistral": Variant("llava_next", "mistral"),
    "SmolVLM with SmolLM3": Variant("smolvlm", "smollm3", {"text_config": {"no_rope_layers": [1, 1, 1, 0]}}),
    "InternVL 3.5 with Qwen3": Variant("internvl", "qwen3"),
    "InternVL 3.5 with Qwen3-MoE": Variant("internvl", "qwen3_moe"),
    "InternVL 3.5 with gpt-oss": Variant("internvl", "gpt_oss"),
    "InternVL 3 with Llama": Variant("internvl", "llama"),
    "Ovis2 with Qwen3": Variant("ovis2", "qwen3"),
    "PaliGemma 2 (Gemma2, soft-capped)": Variant("paligemma", "gemma2"),
    "PaliGemma without token types": Variant("paligemma", token_types=False),
    "Ministral 3": Variant("mistral3", "ministral3"),
    "Molmo2-O (norms after attention)": Variant(
        "molmo2", None, {"text_config": {"norm_after": True, "qk_norm_type": "olmo"}}
    ),
    "Aya Vision 8B (Cohere2)": Variant("aya_vision", "cohere2"),
    "LFM2-VL with experts": Variant(
        "lfm2_vl",
        "lfm2_moe",
        {"text_config": {"layer_types": ["full_attention", "conv", "full_attention", "full_attention"]}},
    ),
    "Gemma4 26B-A4B (experts, no shared keys)": Variant(
        "gemma4",
        None,
        {
            "text_config": {
                "num_kv_shared_layers": 0,
                "hidden_size_per_layer_input": 0,
                "enable_moe_block": True,
                "num_experts": 4,
                "top_k_experts": 2,
                "moe_intermediate_size": 16,
            }
        },
    ),
    "Gemma4 31B (values are keys)": Variant(
        "gemma4",
        None,
        {
            "text_config": {
                "num_kv_shared_layers": 0,
                "hidden_size_per_layer_input": 0,
                "attention_k_eq_v": True,
                "num_global_key_value_heads": 2,
            }
        },
    ),
}
