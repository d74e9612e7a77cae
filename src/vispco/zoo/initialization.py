"""A vision tower that starts by looking at the neighbours of a patch, as a convolution does.

Position embeddings start as 2-D sin-cos, in which a shift is a rotation. So a head of the first layers can be given
queries and keys that meet where the key stands one patch to the left, to the right, above or below. It is only a
start; training is free to change it.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

LAYERS = 2
OFFSETS = ((0.0, -0.8), (0.0, 0.8), (-0.8, 0.0), (0.8, 0.0))  # dy, dx in tokens, one a head


def sincos_2d(count: int, width: int) -> Tensor:
    """2-D sin-cos position embeddings [count, width] at a scale that matters; a leading class token gets zeros."""
    side = math.isqrt(count)
    lead = count - side * side
    wave = waves(torch.arange(side, dtype=torch.float32), width)  # [side, width/2]
    y, x = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
    table = torch.zeros(count, width)
    table[lead:] = torch.cat([wave[y.flatten()], wave[x.flatten()]], dim=1) * 1.2
    return table


def frequencies(width: int) -> Tensor:
    """From half a turn per token to a small part of one over the whole picture [width/4]."""
    return torch.logspace(math.log10(2.6), math.log10(0.12), width // 4)


def waves(places: Tensor, width: int) -> Tensor:
    angles = places[:, None] * frequencies(width)
    return torch.cat([angles.sin(), angles.cos()], dim=1)


def look_around(model: Any) -> None:
    """Give the heads of the first layers of the vision tower a direction each."""
    tower = getattr(model.model, "visual", None)
    if tower is not None:
        for block in tower.blocks[:LAYERS]:
            _rotary(block.attn, tower.rotary_pos_emb.inv_freq, model.config.vision_config.spatial_merge_size)
    else:
        for layer in model.model.vision_tower.encoder.layers[:LAYERS]:
            _learned(layer.self_attn)


def shift(width: int, dy: float, dx: float) -> Tensor:
    """The rotation [width, width] that takes the embedding of (y, x) to that of (y - dy, x - dx)."""
    turn = torch.zeros(width, width)
    part = torch.arange(width // 4)
    for half, step in enumerate((dy, dx)):
        angle = -step * frequencies(width)
        sine, cosine = half * width // 2 + part, half * width // 2 + width // 4 + part
        turn[sine, sine], turn[sine, cosine] = angle.cos(), angle.sin()
        turn[cosine, cosine], turn[cosine, sine] = angle.cos(), -angle.sin()
    return turn


def _learned(attention: Any, strength: float = 1.3) -> None:
    width = attention.q_proj.weight.shape[0]
    size = width // len(OFFSETS)
    for head, offset in enumerate(OFFSETS):
        rows = slice(head * size, (head + 1) * size)
        basis = torch.linalg.qr(torch.randn(width, size))[0].T * strength
        attention.q_proj.weight[rows] = basis
        attention.k_proj.weight[rows] = basis @ shift(width, *offset)


def _rotary(attention: Any, inverse: Tensor, merge: int, strength: float = 2.0) -> None:
    """A constant part of queries and keys, turned by the rotary embedding, has its peak at the offset."""
    bias = attention.qkv.bias
    width = bias.shape[0] // 3
    size = width // len(OFFSETS)
    quarter = size // 4
    for head, (dy, dx) in enumerate(OFFSETS):
        angle = torch.cat([inverse[:quarter] * dy, inverse[:quarter] * dx]) * merge
        start = head * size
        bias[start : start + size // 2] = strength
        keys = width + start
        bias[keys : keys + size // 2] = strength * angle.cos()
        bias[keys + size // 2 : keys + size] = -strength * angle.sin()
