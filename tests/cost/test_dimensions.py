"""Dimensions come from the configs that transformers ships, and what is missing is named."""

from dataclasses import replace

import pytest
import torch
import transformers
from transformers import AutoConfig, DynamicCache, Gemma3TextConfig

from vispco.core.errors import InvalidInputError, UnsupportedModelError
from vispco.cost import Dimensions

FAMILIES = (
    *("Qwen2_5_VLConfig", "Qwen2VLConfig", "LlavaConfig", "LlavaNextConfig", "LlavaOnevisionConfig"),
    *("Gemma3Config", "Idefics3Config", "SmolVLMConfig", "InternVLConfig"),
)


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_is_read(name):
    config = getattr(transformers, name)()
    text = config.get_text_config()
    size = Dimensions.from_config(config)
    assert replace(size, vision=None) == Dimensions.from_config(text)
    assert Dimensions.from_dict(size.to_dict()) == size
    assert size.gated
    assert (size.num_layers, size.hidden, size.ffn) == (
        text.num_hidden_layers,
        text.hidden_size,
        text.intermediate_size,
    )
    assert (size.heads, size.kv_heads, size.vocab) == (
        text.num_attention_heads,
        text.num_key_value_heads,
        text.vocab_size,
    )
    cached = [getattr(layer, "sliding_window", None) for layer in DynamicCache(config=config).layers]
    assert list(size.windows) == cached


def test_the_cache_number_is_the_models():
    assert Dimensions.from_config(Gemma3TextConfig()).dtype_bytes == 4
    assert Dimensions.from_config(Gemma3TextConfig(dtype="bfloat16")).dtype_bytes == 2
    assert Dimensions.from_config(Gemma3TextConfig(dtype=torch.float16)).dtype_bytes == 2
    assert Dimensions.from_config(Gemma3TextConfig(), dtype=torch.float64).dtype_bytes == 8


def test_what_is_missing_is_named():
    assert Dimensions.from_config(AutoConfig.for_model("exaone4"), gated=True).gated
    with pytest.raises(UnsupportedModelError, match="intermediate_size or ffn_dim"):
        Dimensions.from_config(AutoConfig.for_model("gpt2"), gated=False)
    with pytest.raises(InvalidInputError, match="Give one each"):
        Dimensions(
            num_layers=2,
            hidden=8,
            heads=2,
            kv_heads=2,
            head_dim=4,
            ffn=8,
            gated=True,
            windows=(),
            vocab=9,
            dtype_bytes=4,
        )
