"""Shipped models with heads of 32, which vLLM's attention on a CPU can run. They compute what the originals compute.

A head of 24 is padded with zeros, which rotary embeddings leave alone (partial_rotary_factor 0.75); queries are scaled, because
attention divides by the root of the head's size. vLLM's Qwen2 derives the size of a head from the width, so that tiny-qwen's
residual stream is padded, too, and its norms divide by the root of 128 in place of 96 numbers. tiny-qwen3 is as shipped.
"""

import json
import math
import shutil
from pathlib import Path

from safetensors.torch import load_file, save_file
from torch.nn.functional import pad

from vispco import models as zoo
from vllm_plugin.random_models import internvl

HEAD, LIFTED = 24, 32
NARROW, WIDE = 96, 128


def lifted(name: str, folder: Path) -> Path:
    """A folder with the model for vLLM; the shipped one where it needs no lifting, a random one where none is shipped."""
    if name == "internvl":
        return internvl(folder)
    source = zoo.path(name)
    if name == "tiny-qwen3":
        return source
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns("*.safetensors"))
    config = json.loads((source / "config.json").read_text())
    weights = {key: value.float() for key, value in load_file(source / "model.safetensors").items()}
    weights = {key: _padded_heads(key, value) if ".self_attn." in key and "vision" not in key else value for key, value in weights.items()}  # fmt: skip
    config["dtype"] = "float32"
    text = config["text_config"]
    text["rope_parameters"]["partial_rotary_factor"] = HEAD / LIFTED
    if name == "tiny-qwen":
        weights = {key: _widened(key, value) for key, value in weights.items()}
        text["hidden_size"] = config["vision_config"]["out_hidden_size"] = WIDE
        text["rms_norm_eps"] *= NARROW / WIDE
    else:
        text["head_dim"] = LIFTED
        weights = {key.replace("vision_tower.", "vision_tower.vision_model."): value for key, value in weights.items()}
    save_file({key: value.contiguous() for key, value in weights.items()}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def _padded_heads(key, value):
    if key.endswith("o_proj.weight"):
        return pad(value.view(len(value), -1, HEAD), (0, LIFTED - HEAD)).flatten(1)
    heads = value.view(-1, HEAD, *value.shape[1:])
    heads = pad(heads, (0, 0) * (heads.ndim - 2) + (0, LIFTED - HEAD))
    return heads.flatten(0, 1) * (math.sqrt(LIFTED / HEAD) if "q_proj" in key else 1.0)


def _widened(key, value):
    """Zeros where the residual stream is read or written."""
    more = WIDE - NARROW
    if key.startswith("visual."):
        if key.startswith("visual.merger.mlp.2."):
            return pad(value, (0, 0, 0, more)) if value.ndim == 2 else pad(value, (0, more))
        return value
    if key.endswith("norm.weight"):
        return pad(value, (0, more)) * math.sqrt(NARROW / WIDE)
    if key.endswith(("o_proj.weight", "down_proj.weight")):
        return pad(value, (0, 0, 0, more))
    if key.endswith("bias"):
        return value
    return pad(value, (0, more))
