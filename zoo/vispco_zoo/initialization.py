"""The weights that a model starts its training with: random ones that suit a narrow model, or those of a smaller model.

`initialize` draws random weights. Three things differ from the usual start: the spread follows the width of each layer,
the first layers of the vision tower look at the neighbours of a patch as a convolution does (position embeddings start
as 2-D sin-cos, in which a shift is a rotation, and each head gets queries and keys that meet one patch to the left, to
the right, above or below), and the first decoder layers match equal tokens. Training is free to change all of it.

`grow` makes a deep model from a trained one. A decoder layer adds two branches to the hidden states, attention and MLP.
It becomes k layers with the same weights, whose branches are scaled down so that together they add about as much. So
every layer of the deep model takes part from the first step of its training. Each copy gives more weight to attention
heads and neurons of its own, so that the copies learn different things.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from vispco.core.errors import InvalidInputError
from vispco_zoo.tokenizer import markup, token_ids

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vispco_zoo.recipe import Growth

_LAYERS = 2
_OFFSETS = ((0.0, -0.8), (0.0, 0.8), (-0.8, 0.0), (0.8, 0.0))  # dy, dx in tokens, one a head


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
            elif name.endswith("pos_embed"):  # a table that is stretched over the picture, beside the rotary embedding
                module.weight.copy_(_stretched_sincos_2d(*module.weight.shape))
            else:
                scale = 1.0 / math.sqrt(module.embedding_dim) if hasattr(module, "embed_scale") else 0.6
                module.weight.normal_(0.0, scale)
    _look_around(model)
    for name, parameter in model.named_parameters():
        if name.endswith("mm_input_projection_weight"):
            parameter.normal_(0.0, 1.0 / math.sqrt(parameter.shape[0]))
    _match_words(model)


def _match_words(model: Any) -> None:
    """A start in which like finds like: what is seen, what is asked and what is said meet in the word embeddings.

    A letter inside a word starts near the same letter at its beginning; the output starts as the input embedding;
    in the first layers, some heads start with keys that equal their queries and bring what they find unchanged.
    """
    embedding, ids = model.get_input_embeddings().weight, token_ids(markup(model.config.model_type))
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


def sincos_2d(count: int, width: int) -> Tensor:
    """2-D sin-cos position embeddings [count, width] at a scale that matters; a leading class token gets zeros."""
    side = math.isqrt(count)
    lead = count - side * side
    wave = _waves(torch.arange(side, dtype=torch.float32), width)  # [side, width/2]
    y, x = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
    table = torch.zeros(count, width)
    table[lead:] = torch.cat([wave[y.flatten()], wave[x.flatten()]], dim=1) * 1.2
    return table


def _stretched_sincos_2d(count: int, width: int) -> Tensor:
    """The same for a table that the tower interpolates to each picture: _waves of up to three turns over its side."""
    side = math.isqrt(count)
    turns = torch.logspace(math.log10(0.25), math.log10(3.0), width // 4)
    angles = torch.linspace(0.0, 1.0, side)[:, None] * turns * 2 * math.pi
    wave = torch.cat([angles.sin(), angles.cos()], dim=1)  # [side, width/2]
    y, x = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
    return torch.cat([wave[y.flatten()], wave[x.flatten()]], dim=1) * 0.5


def _frequencies(width: int) -> Tensor:
    """From half a turn per token to a small part of one over the whole picture [width/4]."""
    return torch.logspace(math.log10(2.6), math.log10(0.12), width // 4)


def _waves(places: Tensor, width: int) -> Tensor:
    angles = places[:, None] * _frequencies(width)
    return torch.cat([angles.sin(), angles.cos()], dim=1)


def _look_around(model: Any) -> None:
    """Give the heads of the first layers of the vision tower a direction each."""
    tower = getattr(model.model, "visual", None)
    if tower is not None:
        vision = model.config.vision_config
        if vision.num_heads == len(_OFFSETS):
            for block in tower.blocks[:_LAYERS]:
                _rotary(block.attn, tower.rotary_pos_emb.inv_freq, vision.spatial_merge_size)
        else:  # fewer heads: the directions are spread over the blocks, a patch away at first, then a token
            heads = vision.num_heads
            for number, block in enumerate(tower.blocks[: 2 * _LAYERS]):
                reach = 1.25 if number < _LAYERS else 1.25 * vision.spatial_merge_size
                offsets = [_OFFSETS[(number * heads + head) % len(_OFFSETS)] for head in range(heads)]
                _rotary(block.attn, tower.rotary_pos_emb.inv_freq, reach, strength=3.5, offsets=offsets)
    else:
        for layer in model.model.vision_tower.encoder.layers[:_LAYERS]:
            _learned(layer.self_attn)


def shift(width: int, dy: float, dx: float) -> Tensor:
    """The rotation [width, width] that takes the embedding of (y, x) to that of (y - dy, x - dx)."""
    turn = torch.zeros(width, width)
    part = torch.arange(width // 4)
    for half, step in enumerate((dy, dx)):
        angle = -step * _frequencies(width)
        sine, cosine = half * width // 2 + part, half * width // 2 + width // 4 + part
        turn[sine, sine], turn[sine, cosine] = angle.cos(), angle.sin()
        turn[cosine, cosine], turn[cosine, sine] = angle.cos(), -angle.sin()
    return turn


def _learned(attention: Any) -> None:
    width = attention.q_proj.weight.shape[0]
    size = width // len(_OFFSETS)
    for head, offset in enumerate(_OFFSETS):
        rows = slice(head * size, (head + 1) * size)
        basis = torch.linalg.qr(torch.randn(width, size))[0].T * 1.3
        attention.q_proj.weight[rows] = basis
        attention.k_proj.weight[rows] = basis @ shift(width, *offset)


def _rotary(
    attention: Any,
    inverse: Tensor,
    reach: float,
    strength: float = 2.0,
    offsets: Sequence[tuple[float, float]] = _OFFSETS,
) -> None:
    """A constant part of queries and keys, turned by the rotary embedding, has its peak `reach` offsets away."""
    bias = attention.qkv.bias
    width = bias.shape[0] // 3
    size = width // len(offsets)
    quarter = size // 4
    for head, (dy, dx) in enumerate(offsets):
        angle = torch.cat([inverse[:quarter] * dy, inverse[:quarter] * dx]) * reach
        start = head * size
        bias[start : start + size // 2] = strength
        keys = width + start
        bias[keys : keys + size // 2] = strength * angle.cos()
        bias[keys + size // 2 : keys + size] = -strength * angle.sin()


@torch.no_grad()
def grow(model: Any, deep: Any, growth: Growth) -> None:
    """Fill `deep` with the weights of `model`. They are equal in everything but the number of decoder layers."""
    source, target = model.model.language_model.layers, deep.model.language_model.layers
    if len(growth.copies) != len(source) or sum(growth.copies) != len(target) or min(growth.copies) < 1:
        raise InvalidInputError(
            f"copies is {growth.copies}; it needs {len(source)} numbers of 1 or more that add up to {len(target)}, "
            "one for each decoder layer of the smaller model."
        )
    prefix = "model.language_model.layers."
    rest = {name: tensor for name, tensor in model.state_dict().items() if not name.startswith(prefix)}
    deep.load_state_dict(rest, strict=False)
    layers = iter(target)
    for layer, count, scale in zip(source, growth.copies, growth.scales, strict=True):
        state, size = layer.state_dict(), layer.self_attn.head_dim
        for copy in range(count):
            scaled = {}
            for name, unit in (("self_attn.o_proj.weight", size), ("mlp.down_proj.weight", 1)):  # ends of the branches
                own = torch.arange(state[name].shape[1]) // unit % count == copy
                share = torch.where(own, 1 + growth.own * (count - 1), 1 - growth.own)
                scaled[name] = state[name] * scale * share
            next(layers).load_state_dict(state | scaled)


@torch.no_grad()
def scale_branches(model: Any, layers: tuple[int, int], scale: float) -> None:
    """Multiply what the decoder layers from the first number to before the last add to the hidden states."""
    for layer in model.model.language_model.layers[slice(*layers)]:
        layer.self_attn.o_proj.weight.mul_(scale)
        layer.mlp.down_proj.weight.mul_(scale)
