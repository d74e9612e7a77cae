"""The learned methods written the slow and obvious way from their cards: one sample, Python lists, weights by name.

Nothing of the scorers is used but the tensors of their weights.
"""

from __future__ import annotations

import math

import torch
from torch.nn import functional


def dynamic_llava(network, keep):
    """Chooses at every boundary the best tokens by the rating of layer 2; keep: layer -> how many."""
    weights, rating = network.state_dict(), {}

    def choose(b):
        if not rating:
            rating.update(zip(b.visual, predict(weights, network.config.options, states(b)), strict=True))
        return sorted(b.visual, key=lambda v: (-rating[v], v))[: keep[b.layer]]

    return choose


def states(b):
    return torch.stack([b.hidden[b.at(v)] for v in b.visual])


def predict(w, options, x):
    """Log-odds of keeping each of n tokens, x [n, D]."""

    def linear(name, value):
        return value @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def norm(name, value):
        return functional.layer_norm(value, value.shape[-1:], w[f"{name}.weight"], w[f"{name}.bias"])

    x = functional.gelu(linear("project.1", norm("project.0", x)))
    width = x.shape[-1]
    for block in range(options["blocks"]):
        name = f"blocks.{block}"
        qkv = linear(f"{name}.qkv", norm(f"{name}.norm", x)).view(len(x), 3, options["heads"], -1)
        heads = []
        for head in range(options["heads"]):
            q, k, v = qkv[:, 0, head], qkv[:, 1, head], qkv[:, 2, head]
            heads.append((q @ k.T / math.sqrt(q.shape[-1])).softmax(-1) @ v)
        x = x + linear(f"{name}.out", torch.cat(heads, dim=-1))
        grown = functional.gelu(linear(f"{name}.ffn.0", norm(f"{name}.ffn_norm", x)))
        x = x + linear(f"{name}.ffn.2", grown)
    mean = x[:, width // 2 :].mean(0, keepdim=True).expand(len(x), -1)
    x = torch.cat([x[:, : width // 2], mean], dim=-1)
    x = functional.gelu(linear("head.2", functional.gelu(linear("head.0", x))))
    logits = linear("head.4", x)
    return (logits[:, 0] - logits[:, 1]).tolist()


def scaled(values):
    least, most = min(values), max(values)
    return [(value - least) / (most - least) if most > least else 0.0 for value in values]


def atp_llava(network, grid, most=None):
    """grid: position -> (row, column). most: layer -> how many at most."""
    weights, layers = network.state_dict(), network.config.options["layers"]
    margin = {}

    def choose(b):
        if not b.visual:
            return []
        own = [math.log(sum(float(b.weights[:, b.at(u), b.at(v)].mean()) for u in b.shown)) for v in b.visual]
        rows = b.text or b.tokens[-1:]  # without text behind the picture, the last token stands in
        cross = [sum(float(b.weights[:, b.at(t), b.at(v)].mean()) for t in rows) for v in b.visual]
        own, cross = scaled(own), scaled(cross)
        stay = b.visual
        if b.layer in layers:
            spatial = [spatial_score(*grid[v]) for v in b.visual]
            means = torch.tensor([sum(part) / len(part) for part in (own, cross, spatial)])
            name = f"heads.{b.layer}"
            inner = functional.gelu(weights[f"{name}.0.weight"] @ means + weights[f"{name}.0.bias"])
            limit = (
                (weights[f"{name}.2.weight"] @ inner + weights[f"{name}.2.bias"] + weights["shift"]).sigmoid().tolist()
            )
            margin.clear()
            for v, s, c, g in zip(b.visual, own, cross, spatial, strict=True):
                margin[v] = max((s + c) / 2 - limit[0], g - limit[1])
            stay = [v for v in b.visual if margin[v] > 0]
        rating = margin or dict(zip(b.visual, [(s + c) / 2 for s, c in zip(own, cross, strict=True)], strict=True))
        bound = len(stay) if most is None else most[b.layer]
        return sorted(stay, key=lambda v: (-rating[v], v))[:bound]

    return choose


def spatial_score(row, column):
    best = 0.0
    for stride in (2, 3, 4):
        if row % stride == stride // 2 and column % stride == stride // 2:
            best = max(best, 1 - 3 / stride**2)
    return best


def madtp(network, most=None):
    entries, heat = network.entries.detach(), float(network.log_temperature.exp())

    def choose(b):
        x = functional.layer_norm(states(b), entries.shape[-1:])
        similar = [[float(token @ entry) for entry in entries] for token in x]
        last = [float(b.weights[:, -1, b.at(v)].mean()) for v in b.visual]
        own = [sum(float(b.weights[:, b.at(u), b.at(v)].max()) for u in b.shown) for v in b.visual]
        top = [max(row) for row in similar]
        found = [math.exp(value - max(top)) for value in top]
        parts = [[value / sum(part) for value in part] for part in (last, own, found)]
        importance = [sum(three) / 3 for three in zip(*parts, strict=True)]
        limit = math.inf
        for entry in range(len(entries)):
            logits = [row[entry] / heat for row in similar]
            share = [math.exp(value - max(logits)) for value in logits]
            limit = min(limit, sum(s * i for s, i in zip(share, importance, strict=True)) / sum(share))
        rated = dict(zip(b.visual, importance, strict=True))
        stay = [v for v in b.visual if rated[v] > limit] or b.visual
        bound = len(stay) if most is None else most[b.layer]
        return sorted(stay, key=lambda v: (-rated[v], v))[:bound]

    return choose
