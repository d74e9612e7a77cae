"""The models: real transformers classes in small configurations, with the image processors that suit them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
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
    Qwen3VLConfig,
    Qwen3VLForConditionalGeneration,
    SiglipVisionConfig,
)
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
from transformers.models.gemma3.image_processing_pil_gemma3 import Gemma3ImageProcessorPil
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from vispco.core.errors import UnknownNameError
from vispco_zoo.initialization import initialize
from vispco_zoo.smol import build_smol, build_smol_image_processor
from vispco_zoo.tokenizer import CHATML, END, IMAGE, IMAGE_END, IMAGE_START, PAD, PLAIN, Markup, markup, token_ids

if TYPE_CHECKING:
    from collections.abc import Callable

    from transformers import PreTrainedModel


def _specials(marks: Markup = PLAIN) -> dict[str, Any]:
    ids = token_ids(marks)
    known = {"pad_token_id": ids[marks.pad], "eos_token_id": ids[marks.end], "bos_token_id": None}
    return {**known, "vocab_size": len(ids)}


def _placeholders(marks: Markup) -> dict[str, int]:
    """Of the two classes that read videos, too."""
    ids = token_ids(marks)
    pictures = {"image_token_id": ids[marks.image], "video_token_id": ids[marks.video]}
    return {**pictures, "vision_start_token_id": ids[marks.image_start], "vision_end_token_id": ids[marks.image_end]}


_WIDTHS = {"hidden_size": 96, "intermediate_size": 256, "num_attention_heads": 4, "max_position_embeddings": 2048}
_TOWER = {  # of the two that take every picture at one size
    "hidden_size": 112,
    "intermediate_size": 288,
    "num_hidden_layers": 5,
    "num_attention_heads": 4,
    "image_size": 120,
    "patch_size": 12,
}


def _qwen(num_layers: int = 10) -> PreTrainedModel:
    text = {
        **_specials(),
        **_WIDTHS,
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
    config = Qwen2_5_VLConfig(text_config=text, vision_config=vision, **_placeholders(PLAIN), tie_word_embeddings=False)
    return Qwen2_5_VLForConditionalGeneration(config)


def _qwen3() -> PreTrainedModel:
    """Sizes that serving engines take: heads of 32, two patches a side for a token, their rotary bases."""
    text = {
        **_specials(CHATML),
        "hidden_size": 128,
        "intermediate_size": 256,
        "num_hidden_layers": 12,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "max_position_embeddings": 2048,
        "tie_word_embeddings": False,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 1000.0,
            "mrope_section": [6, 5, 5],
            "mrope_interleaved": True,
        },
    }
    vision = {
        "depth": 12,
        "hidden_size": 64,
        "intermediate_size": 160,
        "num_heads": 2,
        "patch_size": 8,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        "out_hidden_size": 128,
        "num_position_embeddings": 256,
        "deepstack_visual_indexes": [3, 6, 9],
        "rope_parameters": {"rope_type": "axial", "rope_theta": 10000.0},
    }
    config = Qwen3VLConfig(text_config=text, vision_config=vision, **_placeholders(CHATML), tie_word_embeddings=False)
    return Qwen3VLForConditionalGeneration(config)


def _llava() -> PreTrainedModel:
    ids = token_ids()
    text = LlamaConfig(
        **_specials(),
        **_WIDTHS,
        num_hidden_layers=8,
        num_key_value_heads=4,
        rope_theta=10000.0,
        tie_word_embeddings=False,
    )
    vision = CLIPVisionConfig(**_TOWER, hidden_act="gelu")
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
        **_WIDTHS,
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
    vision = SiglipVisionConfig(**_TOWER, vision_use_head=False)
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


def _fixed_size(kind: Any, **options: Any) -> Any:
    return kind(size={"height": _TOWER["image_size"], "width": _TOWER["image_size"]}, **options)


def _native_resolution(patch: int = 14, merge: int = 1, least: int = 36, **options: Any) -> Any:
    token = (patch * merge) ** 2  # pixels
    return Qwen2VLImageProcessorPil(
        patch_size=patch,
        merge_size=merge,
        temporal_patch_size=2,
        size={"shortest_edge": least * token, "longest_edge": 256 * token},
        **options,
    )


@dataclass(frozen=True)
class Definition:
    """What makes a model: its class and sizes, its image processor, and the options of transformers' own processor."""

    build: Callable[[], PreTrainedModel]  # random weights
    image_processor: Callable[[], Any]  # the Pillow version, which needs no torchvision
    processor_class: str
    visual_tokens: str
    processor_options: dict[str, Any] = field(default_factory=dict)
    video_processor_class: str = ""
    pretrained: bool = False  # its weights are left as they are built


_QWEN = Definition(
    _qwen, _native_resolution, "Qwen2_5_VLProcessor", "36 to 256", video_processor_class="Qwen2VLVideoProcessor"
)
_DEFINITIONS = {
    "tiny-qwen": _QWEN,
    "tiny-llava": Definition(
        _llava,
        lambda: _fixed_size(CLIPImageProcessorPil, do_center_crop=False),
        "LlavaProcessor",
        "100",
        {"patch_size": 12, "num_additional_image_tokens": 1, "vision_feature_select_strategy": "default"},
    ),
    "tiny-gemma": Definition(
        _gemma,
        lambda: _fixed_size(Gemma3ImageProcessorPil, do_pan_and_scan=False),
        "Gemma3Processor",
        "100",
        {"image_seq_length": 100},
    ),
    "tiny-qwen3": Definition(
        _qwen3,
        lambda: _native_resolution(8, 2, 9, image_mean=[0.5] * 3, image_std=[0.5] * 3),
        "Qwen3VLProcessor",
        "9 to 256",
        video_processor_class="Qwen3VLVideoProcessor",
    ),
    "tiny-deep": replace(_QWEN, build=lambda: _qwen(num_layers=36)),
    "smol": Definition(
        build_smol, build_smol_image_processor, "SmolVLMProcessor", "100", {"image_seq_len": 100}, pretrained=True
    ),
}


def definition(name: str) -> Definition:
    """The definition of a model that can be trained."""
    if name not in _DEFINITIONS:
        raise UnknownNameError("model", name, list(_DEFINITIONS))
    return _DEFINITIONS[name]


def build_image_processor(name: str) -> Any:
    """The image processor of a model."""
    return definition(name).image_processor()


def build_model(name: str, seed: int = 0) -> PreTrainedModel:
    """An untrained model; the same seed gives the same weights."""
    kind = definition(name)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = kind.build()
        if not kind.pretrained:
            initialize(model)
    marks = markup(model.config.model_type)
    model.generation_config.eos_token_id = token_ids(marks)[marks.end]
    model.generation_config.pad_token_id = token_ids(marks)[marks.pad]
    model.generation_config.bos_token_id = None
    model.generation_config.do_sample = False
    return model
