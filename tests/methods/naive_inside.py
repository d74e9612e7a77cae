"""Methods that choose inside the language model, written the slow and obvious way from their cards.

One sample at a time, Python lists, the eager model's own hidden states and attention weights. Nothing of the engine or of
the scorers is used, so it can be held against them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from engine.naive import record_layers
from tiny import IMAGE, VIDEO
from vispco.families import family_of


@dataclass
class Boundary:
    """What is known before a layer: lists of original positions, and tensors over the tokens that are left.

    tokens, visual: what is left. text: instruction tokens after the first visual one. hidden, previous: [n, D], the inputs
    of the layer and of the one before. weights: [H, n, n], the attention of the layer before.
    """

    layer: int
    count: int
    tokens: list[int]
    visual: list[int]
    all_visual: list[int]
    text: list[int]
    hidden: torch.Tensor
    previous: torch.Tensor
    weights: torch.Tensor | None
    embeddings: torch.Tensor
    facts: dict = field(default_factory=dict)

    def at(self, position):
        return self.tokens.index(position)


@torch.no_grad()
def naive_run(model, inputs, counts, choose):
    """(last-layer states by original position, visual tokens at each layer) of one unpadded sample.

    counts: tokens that enter each layer, no drop before layer 1. choose(boundary) -> the positions that stay.
    """
    family = family_of(model)
    recorded = record_layers(model, inputs)
    ids = inputs["input_ids"][0].tolist()
    all_visual = [i for i, t in enumerate(ids) if t in (IMAGE, VIDEO)]
    text = [i for i, t in enumerate(ids) if t not in (IMAGE, VIDEO) and i > all_visual[0]]
    tokens, visual, kept, embeddings = list(range(len(ids))), list(all_visual), [], recorded[0][0][0]
    hidden, previous, weights = embeddings, embeddings, None
    for i in range(len(counts)):
        if i and counts[i] < len(visual):
            facts = {"model": model, "recorded": recorded}
            boundary = Boundary(
                i, counts[i], tokens, visual, all_visual, text, hidden, previous, weights, embeddings, facts
            )
            chosen = set(choose(boundary))
            visual = [v for v in visual if v in chosen]
            left = [t for t in tokens if t not in all_visual or t in chosen]
            hidden = hidden[[tokens.index(t) for t in left]]
            tokens = left
        kept.append(list(visual))
        previous = hidden
        hidden, weights = naive_layer(model, recorded, i, hidden, tokens)
    return dict(zip(tokens, family.text_model(model).norm(hidden), strict=True)), kept


def naive_layer(model, recorded, index, hidden, tokens):
    """(output, attention weights [H, n, n]) of one eager decoder layer on a list of tokens."""
    family = family_of(model)
    layer, kwargs = family.layers(model)[index], recorded[index][1]
    mask = kwargs["attention_mask"][0, 0][tokens][:, tokens][None, None]
    rotary = tuple(e.expand(1, -1, -1)[0][tokens][None] for e in kwargs["position_embeddings"])
    caught = {}
    handle = family.attention(layer).register_forward_hook(lambda _, __, out: caught.update(w=out[1][0]))
    output = layer(hidden[None], attention_mask=mask, position_embeddings=rotary)
    handle.remove()
    return (output[0] if isinstance(output, tuple) else output)[0], caught["w"]


def best(scores, count):
    """The positions with the highest scores; ties go to the earlier one."""
    return sorted(scores, key=lambda v: (-scores[v], v))[:count]


def v2drop(b):
    return best({v: float((b.hidden[b.at(v)] - b.previous[b.at(v)]).norm()) for v in b.visual}, b.count)
