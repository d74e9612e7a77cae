"""Language models whose cost is checked: four at their real size, as their configs ship."""

import pytest
from transformers import Gemma3Config, LlavaConfig, Qwen2_5_VLConfig

# The fields of the published checkpoints' configs that decide the cost of the decoder layers.
REAL = {
    "qwen2.5-vl-3b": Qwen2_5_VLConfig(
        text_config={
            "hidden_size": 2048,
            "num_hidden_layers": 36,
            "num_attention_heads": 16,
            "num_key_value_heads": 2,
            "intermediate_size": 11008,
            "vocab_size": 151936,
        }
    ),
    "qwen2.5-vl-7b": Qwen2_5_VLConfig(
        text_config={
            "hidden_size": 3584,
            "num_hidden_layers": 28,
            "num_attention_heads": 28,
            "num_key_value_heads": 4,
            "intermediate_size": 18944,
            "vocab_size": 152064,
        }
    ),
    "llava-1.5-7b": LlavaConfig(
        text_config={
            "model_type": "llama",
            "hidden_size": 4096,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "intermediate_size": 11008,
            "vocab_size": 32064,
        }
    ),
    "gemma3-4b": Gemma3Config(
        text_config={
            "hidden_size": 2560,
            "num_hidden_layers": 34,
            "num_attention_heads": 8,
            "num_key_value_heads": 4,
            "head_dim": 256,
            "intermediate_size": 10240,
            "sliding_window": 1024,
            "vocab_size": 262208,
        }
    ),
}


@pytest.fixture(params=sorted(REAL))
def real_config(request):
    return REAL[request.param]


@pytest.fixture
def real_configs():
    return REAL
