"""`smol` while it is trained: SmolVLM's class around the frozen SmolLM2, an adapter on each of its matrices, and the tower
of `tiny-gemma`, which already sees.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import SmolVLMConfig, SmolVLMForConditionalGeneration
from transformers.models.smolvlm.image_processing_pil_smolvlm import SmolVLMImageProcessorPil

from vispco.models import smol
from vispco.models.shipped import load

RANK = 16
_IMAGE_SIZE, _PATCH = 120, 12
_ADAPTED = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


class AdaptedLinear(nn.Module):
    """A frozen matrix with a trained product of two thin ones beside it; the product is zero at first."""

    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.weight = nn.Parameter(base.weight.detach().to(torch.bfloat16), requires_grad=False)
        self.lora_a = nn.Parameter(torch.randn(RANK, base.in_features) / base.in_features**0.5)
        self.lora_b = nn.Parameter(torch.zeros(base.out_features, RANK))

    def forward(self, x: Tensor) -> Tensor:
        x = x.to(torch.bfloat16)
        low = nn.functional.linear(x, self.lora_a.to(torch.bfloat16))
        return nn.functional.linear(x, self.weight) + smol.ALPHA * nn.functional.linear(
            low, self.lora_b.to(torch.bfloat16)
        )


@lru_cache(maxsize=1)
def language_model() -> tuple[Any, Any]:
    """(model, tokenizer) from the user's cache, read once."""
    return smol.read_language_model()


def build_smol() -> Any:
    """The model at the first step; what is shipped already, if anything, is put in by `read_parts`."""
    language, tokenizer = language_model()
    text = language.config.to_dict() | {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id}
    text.pop("quantization_config", None)
    tower = load("tiny-gemma")[0].model.vision_tower
    sizes = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "hidden_act")
    vision = {name: getattr(tower.config, name) for name in sizes}
    config = SmolVLMConfig(
        text_config=text,
        vision_config=vision | {"image_size": _IMAGE_SIZE, "patch_size": _PATCH},
        scale_factor=1,
        image_token_id=tokenizer.convert_tokens_to_ids(smol.IMAGE),
        tie_word_embeddings=True,
    )
    model: Any = SmolVLMForConditionalGeneration(config)
    embedding = language.model.embed_tokens.weight.detach()
    with torch.no_grad():
        names = [name for name in language.model.state_dict() if name != "embed_tokens.weight"]
        model.model.text_model.load_state_dict(
            {name: language.model.state_dict()[name] for name in names}, strict=False
        )
        rows = embedding.mean(0) + embedding.std(0) * torch.randn(
            len(smol.ADDED), embedding.shape[1], generator=torch.Generator().manual_seed(0)
        )
        model.get_input_embeddings().weight.copy_(torch.cat([embedding, rows]))
        state = tower.state_dict()
        model.model.vision_model.load_state_dict({k.removeprefix("vision_model."): v for k, v in state.items()})
    model.model.text_model.requires_grad_(requires_grad=False)
    for layer in model.model.text_model.layers:
        for part in (layer.self_attn, layer.mlp):
            for name in _ADAPTED:
                if hasattr(part, name):
                    setattr(part, name, AdaptedLinear(getattr(part, name)))
    model.tie_weights()
    model.lm_head.requires_grad_(requires_grad=False)
    return model


def build_smol_image_processor() -> Any:
    side = {"longest_edge": _IMAGE_SIZE}
    return SmolVLMImageProcessorPil(
        do_image_splitting=False, size=side, max_image_size=side, resample=2, image_mean=[0.5] * 3, image_std=[0.5] * 3
    )


def write_parts(model: Any, folder: Path) -> None:
    """What is shipped of a model: adapter, connector, tower and the rows of the tokens that stand for a picture."""
    named = model.named_parameters()
    own = {name: p for name, p in named if p.requires_grad or name.startswith("model.vision_model.")}
    kept = {name: p.detach().to(torch.float16).contiguous() for name, p in own.items()}
    kept["added_rows"] = model.get_input_embeddings().weight.detach()[-len(smol.ADDED) :].to(torch.float16).contiguous()
    model.config.architectures = [type(model).__name__]
    model.config.save_pretrained(folder)
    model.generation_config.save_pretrained(folder)
    save_file(kept, folder / smol.ADAPTER, metadata={"format": "pt"})


@torch.no_grad()
def read_parts(model: Any, folder: Path) -> None:
    """Put what was shipped back into a model that is to be trained on."""
    given = load_file(folder / smol.ADAPTER)
    model.get_input_embeddings().weight[-len(smol.ADDED) :] = given.pop("added_rows").float()
    parameters = dict(model.named_parameters())
    for name, value in given.items():
        parameters[name].copy_(value)
