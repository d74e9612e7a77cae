"""Model families, by the `model_type` of a transformers config. Others are served by the generic `Family`."""

from __future__ import annotations

from typing import Any

from torch import nn

from vispco.families.base import Family
from vispco.families.gemma3 import Gemma3
from vispco.families.gemma4 import SharedKeys
from vispco.families.granite import Granite4Vision
from vispco.families.kosmos import Kosmos
from vispco.families.llama4 import Llama4
from vispco.families.llava import Idefics, InternVL, Llava, LlavaVariants
from vispco.families.qwen import Qwen, Qwen3

FAMILIES: dict[str, type[Family]] = {
    model_type: family
    for family in (
        *(Qwen, Qwen3, Llava, LlavaVariants, Gemma3, InternVL, Idefics),
        *(SharedKeys, Granite4Vision, Kosmos, Llama4),
    )
    for model_type in family.model_types
}


def family_of(model: nn.Module) -> Family:
    """The family that a model belongs to."""
    config: Any = getattr(model, "config", None)
    return FAMILIES.get(getattr(config, "model_type", ""), Family)()


__all__ = [
    "FAMILIES",
    "Family",
    "Gemma3",
    "Granite4Vision",
    "Idefics",
    "InternVL",
    "Kosmos",
    "Llama4",
    "Llava",
    "LlavaVariants",
    "Qwen",
    "Qwen3",
    "SharedKeys",
    "family_of",
]
