"""Random models of classes that none of the shipped ones has, with heads of 32 and tokenizers of the shipped models."""

import json
import shutil
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import (
    AutoConfig,
    AutoTokenizer,
    Gemma3ForConditionalGeneration,
    InternVLConfig,
    InternVLForConditionalGeneration,
    Qwen2Config,
)

from vispco import models as zoo

TILE, PATCH = 48, 6
SHRINK = 2  # patches of a side that become one token
TOKENS_OF_TILE = (TILE // PATCH // SHRINK) ** 2


def internvl(folder: Path) -> Path:
    """An InternVL whose pictures have up to four tiles and a thumbnail."""
    source = zoo.path("tiny-llava")
    folder.mkdir(parents=True)
    for name in ("tokenizer.json", "chat_template.jinja", "generation_config.json"):
        shutil.copy(source / name, folder / name)
    tokens = {"start_image_token": "<image_start>", "end_image_token": "<image_end>", "context_image_token": "<image>"}
    known = json.loads((source / "tokenizer_config.json").read_text())
    size = {"size": {"height": TILE, "width": TILE}}
    pictures = {"image_processor_type": "GotOcr2ImageProcessor", "crop_to_patches": True, "max_patches": 4, **size}
    files = {
        "tokenizer_config": {**known, **tokens},
        "preprocessor_config": pictures,
        "video_preprocessor_config": {"video_processor_type": "InternVLVideoProcessor", **size},
        "processor_config": {"image_seq_length": TOKENS_OF_TILE},
    }
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps({**content, "processor_class": "InternVLProcessor"}))
    old = AutoConfig.from_pretrained(source)
    text = Qwen2Config(
        vocab_size=old.text_config.vocab_size,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=6,
        num_attention_heads=4,
        num_key_value_heads=2,
        eos_token_id=old.text_config.eos_token_id,
        pad_token_id=old.text_config.pad_token_id,
        bos_token_id=None,
    )
    vision = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 3, "num_attention_heads": 2}
    config = InternVLConfig(
        text_config=text,
        vision_config={**vision, "image_size": [TILE, TILE], "patch_size": [PATCH, PATCH]},
        image_token_id=old.image_token_id,
        image_seq_length=TOKENS_OF_TILE,
        downsample_ratio=1 / SHRINK,
    )
    _random(InternVLForConditionalGeneration, config).save_pretrained(folder)
    return folder


def gemma3(folder: Path) -> tuple[Path, Path]:
    """A Gemma3 for transformers, and the same for vLLM, which names the tower's weights in another way."""
    source, served = zoo.path("tiny-gemma"), folder.with_name(f"{folder.name}-served")
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns("*.safetensors", "card.json"))
    tokenizer = AutoTokenizer.from_pretrained(source)
    tokenizer.add_tokens(["\n" * number for number in range(1, 5)])  # vLLM looks them up
    tokenizer.save_pretrained(folder)
    config = AutoConfig.from_pretrained(source)
    config.text_config.head_dim, config.text_config.vocab_size = 32, len(tokenizer)
    _random(Gemma3ForConditionalGeneration, config).save_pretrained(folder)
    shutil.copytree(folder, served)
    weights = load_file(folder / "model.safetensors")
    named = {key.replace("vision_tower.", "vision_tower.vision_model."): value for key, value in weights.items()}
    save_file(named, served / "model.safetensors")
    return folder, served


def _random(kind, config):
    torch.manual_seed(0)
    model = kind(config).float().eval()
    for parameter in model.parameters():
        if parameter.dim() > 1 or not parameter.any():
            torch.nn.init.normal_(parameter, std=0.15)
    return model
