"""What the vision tower of a tiny model knows of one sample, read the slow way: queries and keys of each block, patch by patch."""

from __future__ import annotations

import copy
import math
from functools import cache

import torch
from transformers import AttentionInterface

from engine.naive import record_layers
from tiny import IMAGE, build

DEPTH = 4
WHOLE = [1, 3]  # the blocks of Qwen2.5-VL's tower that see the whole picture


def deep(name, attention="sdpa"):
    """A tiny model whose vision tower has several blocks; the same object for the same name."""
    model = _deep(name)
    if model.config._attn_implementation != attention:
        model.set_attn_implementation(attention)
    return model


@cache
def _deep(name):
    config = copy.deepcopy(build(name).config)
    vision = config.vision_config
    if name.startswith("qwen"):
        vision.depth = DEPTH
        if name == "qwen2_5_vl":
            vision.fullatt_block_indexes = WHOLE
    else:
        vision.num_hidden_layers = DEPTH
    torch.manual_seed(7)
    model = type(build(name))(config).eval()
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.3)
    model.set_attn_implementation("sdpa")
    return model


def window_order(rows, columns, side=2):
    """The places of a picture's tokens in the order in which Qwen2.5-VL's tower runs them: window by window."""
    order = []
    for top in range(0, rows, side):
        for left in range(0, columns, side):
            for row in range(top, min(top + side, rows)):
                order += [row * columns + c for c in range(left, min(left + side, columns))]
    return order


def by_token(name, patches, sizes, model):
    """Means over the patches of each visual token, in the order of the prompt. patches: [I][P][d] lists of tensors."""
    out = []
    if name.startswith("qwen"):
        flat, first = torch.cat(patches), 0
        groups = [flat[i : i + 4].mean(0) for i in range(0, len(flat), 4)]
        for rows, columns in sizes:
            order = window_order(rows, columns) if name == "qwen2_5_vl" else range(rows * columns)
            part = dict(zip(order, groups[first : first + rows * columns], strict=True))
            out += [part[place] for place in range(rows * columns)]
            first += rows * columns
        return out
    for picture in patches:
        side = 4
        grid = picture[-side * side :]
        width = side // math.isqrt(sizes[0][0] * sizes[0][1])
        assert width == 1  # the tiny models keep every patch
        out += list(grid)
    return out


class Tower:
    """features, attention, received and keys of every visual token of one unpadded sample, in float64 where it is computed."""

    def __init__(self, name, x, sizes):
        model = deep(name)
        self.calls = []
        tower = model.model.visual if name.startswith("qwen") else model.model.vision_tower
        projector = tower.merger if name.startswith("qwen") else model.model.multi_modal_projector

        def spy(module, query, key, value, *_, scaling=None, **__):
            self.calls.append((module, query.double(), key.double(), scaling))
            weights = (query @ key.transpose(2, 3) * scaling).softmax(-1)
            return (weights @ value).transpose(1, 2).contiguous(), weights

        AttentionInterface.register("spy", spy)
        before = tower.config._attn_implementation
        tower.config._attn_implementation = "spy"
        seen = {}
        handle = projector.register_forward_pre_hook(lambda _, args: seen.update(states=args[0]))
        try:
            with torch.no_grad():
                embeddings = record_layers(model, x)[0][0][0]
        finally:
            handle.remove()
            tower.config._attn_implementation = before
        ids = x["input_ids"][0]
        visual = (ids == IMAGE).nonzero()[:, 0].tolist()
        self.states = embeddings[visual].double().tolist()
        self.text = [embeddings[i].double().tolist() for i in range(visual[0], len(ids)) if ids[i] != IMAGE]
        self.sizes = sizes
        states = seen["states"] if seen["states"].dim() == 3 else seen["states"][None]
        self.features = self._pooled(name, model, list(states.double()))
        self.blocks = list(dict.fromkeys(call[0] for call in self.calls))
        self.name, self.model = name, model

    def _pooled(self, name, model, patches):
        return [v.tolist() for v in by_token(name, patches, self.sizes, model)]

    def _of_block(self, block, read):
        calls = [call for call in self.calls if call[0] is self.blocks[block]]
        pictures = [read(q[i], k[i], s)[:, None] for _, q, k, s in calls for i in range(len(q))]
        return [v[0] for v in self._pooled(self.name, self.model, pictures)]

    def attention(self, block):
        """From the class token for CLIP, else the mean over all patches; mean over heads."""
        return self._of_block(
            block, lambda q, k, s: _map(q, k, s)[0] if self.name == "llava" else _map(q, k, s).mean(0)
        )

    def received(self, block):
        return self._of_block(block, lambda q, k, s: _map(q, k, s).mean(0))

    def keys(self, block):
        calls = [call for call in self.calls if call[0] is self.blocks[block]]
        pictures = [k[i].mean(0) for _, _, k, _ in calls for i in range(len(k))]
        return self._pooled(self.name, self.model, pictures)


def _map(query, key, scale):
    """The attention map of one picture, mean over heads: [P, P]."""
    return (query @ key.transpose(1, 2) * scale).softmax(-1).mean(0)
