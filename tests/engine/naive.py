"""Pruning written the slow and obvious way: one sample, Python lists, the eager model's own attention weights.

It runs the decoder layers of an eager model one after another on ever shorter token lists. Nothing of the engine or of
the scorers is used, so it can be held against them.
"""

from __future__ import annotations

import math

import torch

from tiny import IMAGE, VIDEO
from vispco.families import family_of


def record_layers(model, inputs):
    """Embeddings and the keyword arguments of each layer in an untouched forward pass."""
    return _recorded(model, inputs, family_of(model).layers(model))


def record_added(model, inputs):
    """What DeepStack adds to the visual tokens after each of the first layers; nothing for most models."""
    ((_, kwargs),) = _recorded(model, inputs, [family_of(model).text_model(model)])
    return kwargs.get("deepstack_visual_embeds") or ()


def _recorded(model, inputs, modules):
    seen = []

    def hook(_, args, kwargs):
        seen.append((args[0] if args else kwargs.get("hidden_states"), kwargs))

    handles = [module.register_forward_pre_hook(hook, with_kwargs=True) for module in modules]
    try:
        model(**inputs, use_cache=False)
    finally:
        for handle in handles:
            handle.remove()
    return seen


def naive_scores(name, weights, tokens, visual, text, raters):
    """weights [H, n, n] over the tokens that are left (lists of original positions); score of each visual token."""
    place = {t: i for i, t in enumerate(tokens)}
    last = place[tokens[-1]]
    out = {}
    for v in visual:
        column = weights[:, :, place[v]]
        if name == "fastv":
            out[v] = sum(column[h, last].item() for h in range(len(column))) / len(column)
        elif name == "sparsevlm":
            rows = [column[:, place[t]].mean().item() for t in raters]
            out[v] = sum(rows) / len(rows)
        elif name == "fitprune":
            cross = sum(column[:, place[t]].max().item() for t in text)
            own = sum(column[:, place[u]].max().item() for u in visual) / len(visual)
            out[v] = cross * own
    return out


def naive_raters(embeddings, visual, text):
    share = torch.zeros(len(text))
    for v in visual:
        dots = torch.tensor([float(embeddings[v] @ embeddings[t]) for t in text])
        share += torch.softmax(dots, 0)
    share /= len(visual)
    mean = share.mean()
    return [t for t, s in zip(text, share, strict=True) if s >= mean]


@torch.no_grad()
def naive_prefill(model, inputs, retention, scorer):
    """(last-layer states by original position, visual tokens left at each layer) of one unpadded sample."""
    family = family_of(model)
    recorded, added = record_layers(model, inputs), record_added(model, inputs)
    ids = inputs["input_ids"][0].tolist()
    all_visual = [i for i, t in enumerate(ids) if t in (IMAGE, VIDEO)]
    text_after = [i for i, t in enumerate(ids) if t not in (IMAGE, VIDEO) and i > all_visual[0]]
    hidden = recorded[0][0][0]
    raters = naive_raters(hidden, all_visual, text_after)
    tokens, visual, kept = list(range(len(ids))), list(all_visual), []
    for i, layer in enumerate(family.layers(model)):
        kept.append(list(visual))
        kwargs = recorded[i][1]
        mask = kwargs["attention_mask"][0, 0][tokens][:, tokens][None, None]
        rotary = tuple(e.expand(1, -1, -1)[0][tokens][None] for e in kwargs["position_embeddings"])
        caught = {}
        handle = family.attention(layer).register_forward_hook(
            lambda _, __, out, caught=caught: caught.update(w=out[1][0])
        )
        output = layer(hidden[None], attention_mask=mask, position_embeddings=rotary)
        handle.remove()
        hidden = (output[0] if isinstance(output, tuple) else output)[0]
        if i < len(added):
            for v in visual:
                hidden[tokens.index(v)] += added[i][all_visual.index(v)]
        if i + 1 == len(retention):
            break
        count = math.floor(retention[i + 1] * len(all_visual) + 0.5)
        if count < len(visual):
            scores = naive_scores(scorer, caught["w"], tokens, visual, text_after, raters)
            best = sorted(visual, key=lambda v: (-scores[v], v))[:count]
            visual = [v for v in visual if v in best]
            remaining = [t for t in tokens if t not in all_visual or t in visual]
            hidden = hidden[[tokens.index(t) for t in remaining]]
            tokens = remaining
    states = family.text_model(model).norm(hidden)
    return dict(zip(tokens, states, strict=True)), kept
