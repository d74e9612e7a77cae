"""The three models: real transformers classes, small configurations, weights drawn for their width."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from transformers import (
    CLIPVisionConfig,
    Gemma3Config,
    Gemma3ForConditionalGeneration,
    Gemma3TextConfig,
    LlamaConfig,
    LlavaConfig,
    LlavaForConditionalGeneration,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    SiglipVisionConfig,
)

from vispco.errors import UnknownNameError
from vispco.zoo.initialization import look_around, sincos_2d
from vispco.zoo.tokenizer import END, IMAGE, IMAGE_END, IMAGE_START, PAD, VIDEO, token_ids

if TYPE_CHECKING:
    from transformers import PreTrainedModel

NAMES = ("tiny-qwen", "tiny-llava", "tiny-gemma")


def _specials() -> dict[str, Any]:
    ids = token_ids()
    return {"pad_token_id": ids[PAD], "eos_token_id": ids[END], "bos_token_id": None, "vocab_size": len(ids)}


WIDTHS = {"hidden_size": 96, "intermediate_size": 256, "num_attention_heads": 4, "max_position_embeddings": 2048}
TOWER = {  # of the two that take every picture at one size
    "hidden_size": 112,
    "intermediate_size": 288,
    "num_hidden_layers": 5,
    "num_attention_heads": 4,
    "image_size": 120,
    "patch_size": 12,
}


def _qwen(num_layers: int = 10) -> PreTrainedModel:
    ids = token_ids()
    text = {
        **_specials(),
        **WIDTHS,
        "num_hidden_layers": num_layers,
        "num_key_value_heads": 2,
        "tie_word_embeddings": False,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1000.0, "mrope_section": [2, 5, 5]},
    }
    vision = {
        "depth": 5,
        "hidden_size": 112,
        "intermediate_size": 224,
        "num_heads": 4,
        "patch_size": 14,
        "spatial_merge_size": 1,
        "temporal_patch_size": 2,
        "window_size": 224,
        "fullatt_block_indexes": [0, 1, 2, 3, 4],
        "rope_parameters": {"rope_type": "axial", "rope_theta": 30.0},
        "out_hidden_size": 96,
    }
    config = Qwen2_5_VLConfig(
        text_config=text,
        vision_config=vision,
        image_token_id=ids[IMAGE],
        video_token_id=ids[VIDEO],
        vision_start_token_id=ids[IMAGE_START],
        vision_end_token_id=ids[IMAGE_END],
        tie_word_embeddings=False,
    )
    return Qwen2_5_VLForConditionalGeneration(config)


def _llava() -> PreTrainedModel:
    ids = token_ids()
    text = LlamaConfig(
        **_specials(),
        **WIDTHS,
        num_hidden_layers=8,
        num_key_value_heads=4,
        rope_theta=10000.0,
        tie_word_embeddings=False,
    )
    vision = CLIPVisionConfig(**TOWER, hidden_act="gelu")
    config = LlavaConfig(
        vision_config=vision,
        text_config=text,
        image_token_id=ids[IMAGE],
        image_seq_length=100,
        vision_feature_layer=-1,
        vision_feature_select_strategy="default",
        tie_word_embeddings=False,
    )
    return LlavaForConditionalGeneration(config)


def _gemma() -> PreTrainedModel:
    ids = token_ids()
    text = Gemma3TextConfig(
        **_specials(),
        **WIDTHS,
        num_hidden_layers=8,
        num_key_value_heads=2,
        head_dim=24,
        query_pre_attn_scalar=24,
        sliding_window=48,
        layer_types=["sliding_attention", "full_attention"] * 4,
        rope_parameters={
            "full_attention": {"rope_type": "default", "rope_theta": 100000.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
        },
    )
    vision = SiglipVisionConfig(**TOWER, vision_use_head=False)
    config = Gemma3Config(
        text_config=text,
        vision_config=vision,
        mm_tokens_per_image=100,
        image_token_id=ids[IMAGE],
        boi_token_id=ids[IMAGE_START],
        eoi_token_id=ids[IMAGE_END],
        image_token_index=ids[IMAGE],
        boi_token_index=ids[IMAGE_START],
        eoi_token_index=ids[IMAGE_END],
        eos_token_id=ids[END],
        pad_token_id=ids[PAD],
    )
    return Gemma3ForConditionalGeneration(config)


def _deep() -> PreTrainedModel:
    return _qwen(num_layers=36)


BUILDERS = {"tiny-qwen": _qwen, "tiny-llava": _llava, "tiny-gemma": _gemma, "tiny-deep": _deep}


def build_model(name: str, seed: int = 0) -> PreTrainedModel:
    """An untrained model; the same seed gives the same weights."""
    if name not in BUILDERS:
        raise UnknownNameError("model", name, list(BUILDERS))
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = BUILDERS[name]()
        initialize(model)
    model.generation_config.eos_token_id = token_ids()[END]
    model.generation_config.pad_token_id = token_ids()[PAD]
    model.generation_config.bos_token_id = None
    model.generation_config.do_sample = False
    return model


@torch.no_grad()
def initialize(model: nn.Module) -> None:
    """Weights of 1/sqrt(fan-in): the usual 0.02 is for wide models and leaves the attention of a narrow one uniform."""
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear | nn.Conv2d | nn.Conv3d):
            fan_in = module.weight[0].numel()
            out = name.endswith(("o_proj", "down_proj", "out_proj", "fc2", "attn.proj"))
            module.weight.normal_(0.0, (0.5 if out else 1.0) / math.sqrt(fan_in))
            if isinstance(module, nn.Conv2d | nn.Conv3d):  # most filters see contrast, not the light of the page
                contrast = module.weight[module.weight.shape[0] // 4 :]
                contrast.sub_(contrast.mean(dim=tuple(range(2, contrast.ndim)), keepdim=True))
                module.weight[: module.weight.shape[0] // 4].mul_(0.5)
            if module.bias is not None:
                module.bias.zero_()
        elif isinstance(module, nn.Embedding):
            if "position_embedding" in name:
                module.weight.copy_(sincos_2d(*module.weight.shape))
            else:
                scale = 1.0 / math.sqrt(module.embedding_dim) if hasattr(module, "embed_scale") else 0.6
                module.weight.normal_(0.0, scale)
    look_around(model)
    for name, parameter in model.named_parameters():
        if name.endswith("mm_input_projection_weight"):
            parameter.normal_(0.0, 1.0 / math.sqrt(parameter.shape[0]))
    match_words(model)


def match_words(model: Any) -> None:
    """A start in which like finds like: what is seen, what is asked and what is said meet in the word embeddings.

    A letter inside a word starts near the same letter at its beginning; the output starts as the input embedding;
    in the first layers, some heads start with keys that equal their queries and bring what they find unchanged.
    """
    embedding, ids = model.get_input_embeddings().weight, token_ids()
    for token, number in ids.items():
        if token.startswith("##"):
            embedding[number].mul_(0.6).add_(embedding[ids[token[2:]]], alpha=0.8)
    head = model.get_output_embeddings().weight
    if head is not embedding:
        head.copy_(0.3 * embedding)
    for layer in model.model.language_model.layers[:4]:
        attention = layer.self_attn
        size = attention.head_dim
        groups = attention.q_proj.weight.shape[0] // attention.k_proj.weight.shape[0]
        for key in range(2):
            rows = slice(key * groups * size, (key * groups + 1) * size)
            values = slice(key * size, (key + 1) * size)
            attention.k_proj.weight[values] = attention.q_proj.weight[rows]
            attention.o_proj.weight[:, rows] = 2.0 * attention.v_proj.weight[values].T
