"""Model families, by the `model_type` of a transformers config. Others are served by the generic `Family`."""

from __future__ import annotations

from typing import Any

from torch import nn

from vispco.families.family import Family
from vispco.families.gemma import Gemma3, SharedKeys
from vispco.families.llava import Idefics, InternVL, Llava, LlavaVariants
from vispco.families.others import Granite4Vision, Kosmos, Llama4
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


__all__ = ["FAMILIES", "Family", "family_of"]
