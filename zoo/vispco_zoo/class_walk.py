"""The walk: every class of transformers' image-text-to-text mapping, and released variants, each as a tiny random twin.

A variant is a released model whose language model is another one than the default of its class.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from vispco.check.check_model import Report, check_model
from vispco.check.prompts import prompter_for
from vispco.check.twin import classes, quiet, twin_of
from vispco.families.unserved import NO_VISUAL_TOKENS


@dataclass(frozen=True)
class _Variant:
    """model_type: of the class. text: `model_type` of the language model, None for the default. changes: of the small config.

    token_types: whether prompts come with token types.
    """

    model_type: str
    text: str | None = None
    changes: dict[str, Any] = field(default_factory=dict)
    token_types: bool = True


_PLAIN_GEMMA4 = {"num_kv_shared_layers": 0, "hidden_size_per_layer_input": 0}
_FEW_EXPERTS = {"num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 16}
VARIANTS: dict[str, _Variant] = {
    "LLaVA with Mistral": _Variant("llava", "mistral"),
    "LLaVA with Qwen2": _Variant("llava", "qwen2"),
    "LLaVA with Phi": _Variant("llava", "phi"),
    "LLaVA with OLMo2": _Variant("llava", "olmo2"),
    "LLaVA-NeXT with Granite (Granite Vision 3)": _Variant("llava_next", "granite"),
    "LLaVA-NeXT with Mistral": _Variant("llava_next", "mistral"),
    "SmolVLM with SmolLM3": _Variant("smolvlm", "smollm3", {"text_config": {"no_rope_layers": [1, 1, 1, 0]}}),
    "InternVL 3.5 with Qwen3": _Variant("internvl", "qwen3"),
    "InternVL 3.5 with Qwen3-MoE": _Variant("internvl", "qwen3_moe"),
    "InternVL 3.5 with gpt-oss": _Variant("internvl", "gpt_oss"),
    "InternVL 3 with Llama": _Variant("internvl", "llama"),
    "Ovis2 with Qwen3": _Variant("ovis2", "qwen3"),
    "PaliGemma 2 (Gemma2, soft-capped)": _Variant("paligemma", "gemma2"),
    "PaliGemma without token types": _Variant("paligemma", token_types=False),
    "Ministral 3": _Variant("mistral3", "ministral3"),
    "Molmo2-O (norms after attention)": _Variant(
        "molmo2", changes={"text_config": {"norm_after": True, "qk_norm_type": "olmo"}}
    ),
    "Aya Vision 8B (Cohere2)": _Variant("aya_vision", "cohere2"),
    "LFM2-VL with experts": _Variant(
        "lfm2_vl",
        "lfm2_moe",
        {"text_config": {"layer_types": ["full_attention", "conv", "full_attention", "full_attention"]}},
    ),
    "Gemma4 26B-A4B (experts, no shared keys)": _Variant(
        "gemma4", changes={"text_config": {**_PLAIN_GEMMA4, "enable_moe_block": True, **_FEW_EXPERTS}}
    ),
    "Gemma4 31B (values are keys)": _Variant(
        "gemma4", changes={"text_config": {**_PLAIN_GEMMA4, "attention_k_eq_v": True, "num_global_key_value_heads": 2}}
    ),
}


def check_class(model_type: str) -> Report:
    """All laws on the twin of one class."""
    name = classes().get(model_type, model_type)
    if model_type in NO_VISUAL_TOKENS:
        return Report(name, "no visual tokens", NO_VISUAL_TOKENS[model_type])
    with quiet():
        try:
            return check_model(twin_of(model_type))
        except Exception as error:  # noqa: BLE001 - one class must not end the walk
            return _no_twin(name, error)


def check_variant(name: str) -> Report:
    """All laws on the twin of a released variant."""
    variant = VARIANTS[name]
    with quiet():
        try:
            kind = CONFIG_MAPPING[variant.model_type]
            config = kind() if variant.text is None else kind(text_config={"model_type": variant.text})
            model = twin_of(config, variant.changes)
            prompter = prompter_for(model)
            report = check_model(model, prompter=replace(prompter, token_types=variant.token_types))
        except Exception as error:  # noqa: BLE001 - one variant must not end the walk
            return _no_twin(name, error)
    return replace(report, model_class=name)


def walk(kinds: Iterable[str] | None = None) -> Iterator[tuple[str, Report]]:
    """(model_type, what was found) for class after class."""
    for kind in classes() if kinds is None else kinds:
        yield kind, check_class(kind)


def _no_twin(name: str, error: Exception) -> Report:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    sentence = " ".join(str(error).split())[:300]
    return Report(
        name, "no twin", f"{type(error).__name__}: {sentence} ({frame.filename.rsplit('/', 1)[-1]}:{frame.lineno})"
    )
