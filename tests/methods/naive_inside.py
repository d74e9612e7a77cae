"""Methods that choose inside the language model, written the slow and obvious way from their cards.

One sample at a time, Python lists, the eager model's own hidden states and attention weights. Nothing of the engine or of
the scorers is used, so it can be held against them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from transformers import DynamicCache

from engine.naive import naive_raters, record_added, record_layers
from tiny import IMAGE, VIDEO
from vispco.families import family_of


@dataclass
class Boundary:
    """What is known before a layer: lists of original positions, and tensors over the tokens that are left.

    tokens: what is left. shown: the visual ones of them; visual: those of which the method may choose, not the last token of a
    prompt, whose output is read. text: instruction tokens after the first visual one. hidden, previous: [n, D], the inputs
    of the layer and of the one before. weights: [H, n, n], the attention of the layer before.
    """

    layer: int
    count: int
    tokens: list[int]
    visual: list[int]
    shown: list[int]
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
    recorded, added = record_layers(model, inputs), record_added(model, inputs)
    ids = inputs["input_ids"][0].tolist()
    all_visual = [i for i, t in enumerate(ids) if t in (IMAGE, VIDEO)]
    text = [i for i, t in enumerate(ids) if t not in (IMAGE, VIDEO) and i > all_visual[0]]
    tokens, visual, kept, embeddings = list(range(len(ids))), list(all_visual), [], recorded[0][0][0]
    hidden, previous, weights = embeddings, embeddings, None
    read = [v for v in all_visual if v == len(ids) - 1]  # never leaves, and no method is asked
    for i in range(len(counts)):
        if i and counts[i] < len(visual) and len(visual) > len(read):
            facts = {"model": model, "recorded": recorded, "sizes": sizes_of(model, inputs)}
            free = [v for v in visual if v not in read]
            count = max(counts[i] - len(read), 0) if counts[i] >= 0 else counts[i]
            boundary = Boundary(
                i, count, tokens, free, visual, all_visual, text, hidden, previous, weights, embeddings, facts
            )
            chosen = {*choose(boundary), *read}
            visual = [v for v in visual if v in chosen]
            left = [t for t in tokens if t not in all_visual or t in chosen]
            hidden = hidden[[tokens.index(t) for t in left]]
            tokens = left
        kept.append(list(visual))
        previous = hidden
        hidden, weights = naive_layer(model, recorded, i, hidden, tokens)
        if i < len(added):
            for v in visual:
                hidden[tokens.index(v)] += added[i][all_visual.index(v)]
    return dict(zip(tokens, family.text_model(model).norm(hidden), strict=True)), kept


def sizes_of(model, inputs):
    """Token grid of each picture: tiny Qwen merges 2 x 2 patches, the others see 4 x 4 tokens."""
    if "image_grid_thw" in inputs:
        return [(t, h // 2, w // 2) for t, h, w in inputs["image_grid_thw"].tolist()]
    return [(1, 4, 4)] * len(inputs["pixel_values"])


def naive_layer(model, recorded, index, hidden, tokens, *, rotary=True, cache=None):
    """(output, attention weights [H, n, n]) of one eager decoder layer on a list of tokens."""
    family = family_of(model)
    layer, kwargs = family.layers(model)[index], recorded[index][1]
    mask = kwargs["attention_mask"][0, 0][tokens][:, tokens][None, None]
    cos, sin = (e.expand(1, -1, -1)[0][tokens][None] for e in kwargs["position_embeddings"])
    if not rotary:
        cos, sin = torch.ones_like(cos), torch.zeros_like(sin)
    caught = {}
    handle = family.attention(layer).register_forward_hook(lambda _, __, out: caught.update(w=out[1][0]))
    more = {} if cache is None else {"past_key_values": cache}
    output = layer(hidden[None], attention_mask=mask, position_embeddings=(cos, sin), **more)
    handle.remove()
    return (output[0] if isinstance(output, tuple) else output)[0], caught["w"]


def best(scores, count):
    """The positions with the highest scores; ties go to the earlier one."""
    return sorted(scores, key=lambda v: (-scores[v], v))[:count]


def row(b, weights, query):
    """Head-mean attention of one query to each visual token."""
    return {v: float(weights[:, b.at(query), b.at(v)].double().mean()) for v in b.visual}


def rows(b, weights, queries):
    """The same, summed over queries."""
    found = [row(b, weights, q) for q in queries]
    return {v: sum(r[v] for r in found) for v in b.visual}


def text_rows(b):
    """Instruction tokens after the picture; the last token of all where there are none."""
    return b.text or [b.tokens[-1]]


def after_image(b):
    return next((t for t in b.tokens if t > b.all_visual[-1]), b.tokens[-1])


def v2drop(b):
    return best({v: float((b.hidden[b.at(v)] - b.previous[b.at(v)]).norm()) for v in b.visual}, b.count)


def vtw(b):
    return b.visual[: b.count]


def pyramiddrop(b, rotary=True):
    facts = b.facts
    _, weights = naive_layer(facts["model"], facts["recorded"], b.layer, b.hidden, b.tokens, rotary=rotary)
    return best(row(b, weights, b.tokens[-1]), b.count)


def vscan_inside(b):
    return pyramiddrop(b, rotary=False)


def himap_text(b):
    return best(rows(b, b.weights, text_rows(b)), b.count)


def himap_visual(b):
    return best(rows(b, b.weights, b.shown), b.count)


def priortr(b, queries=None):
    asked = rows(b, b.weights, queries or [b.tokens[-1]])
    prior = row(b, b.weights, after_image(b))
    p = {v: a / max(sum(asked.values()), 1e-9) for v, a in asked.items()}
    q = {v: a / max(sum(prior.values()), 1e-9) for v, a in prior.items()}
    return best({v: p[v] * math.log((p[v] + 1e-9) / (q[v] + 1e-9)) for v in b.visual}, b.count)


def priortr_text(b):
    return priortr(b, text_rows(b))


def knorm(b):
    cache, facts = DynamicCache(), b.facts
    naive_layer(facts["model"], facts["recorded"], b.layer - 1, b.previous, b.tokens, cache=cache)
    mean = cache.layers[b.layer - 1].keys[0].mean(0).tolist()  # [n][d]
    return best({v: -math.sqrt(sum(x * x for x in mean[b.at(v)])) for v in b.visual}, b.count)


def dart(b):
    cache, facts = DynamicCache(), b.facts
    naive_layer(facts["model"], facts["recorded"], b.layer - 1, b.previous, b.tokens, cache=cache)
    keys = cache.layers[b.layer - 1].keys[0]  # [H_kv, n, d]
    half = keys.shape[-1] // 2  # rotary embeddings turn the entries i and i + d/2 together
    norm = {
        t: sum(math.hypot(k[i], k[i + half]) for k in keys[:, b.at(t)].tolist() for i in range(half)) for t in b.tokens
    }
    own = sorted(b.visual, key=lambda v: (-norm[v], v))[:4][: b.count]
    text = sorted(text_rows(b), key=lambda t: (-norm[t], t))[:4]
    keep, pivots, rest = set(own), [*own, *text], b.count - len(own)
    for number, pivot in enumerate(pivots):
        quota = rest // len(pivots) + (number < rest % len(pivots))
        like = {v: float(torch.cosine_similarity(b.hidden[b.at(v)], b.hidden[b.at(pivot)], 0)) for v in b.visual}
        keep |= set(sorted((v for v in b.visual if v not in keep), key=lambda v: (like[v], v))[:quota])
    return keep


def aim(b):
    """Through the weights, since softmax(l / T) is w^(1/T), normalised."""
    total = torch.zeros(len(b.tokens), dtype=torch.float64)
    for head in b.weights.double():
        sharp = head**10
        sharp = sharp / sharp.sum(-1, keepdim=True)
        share = torch.full((len(b.tokens),), 1 / len(b.tokens), dtype=torch.float64)
        for _ in range(5):
            share = share @ sharp
        total += share**2
    ends = {v: math.sqrt(float(total[b.at(v)]) / len(b.weights)) for v in b.visual}
    return best({v: end if end > 1e-45 else 0 for v, end in ends.items()}, b.count)  # no float32 is smaller


def btp(b, balance=0.5):
    received = rows(b, b.weights, text_rows(b))
    most = max(received.values())
    kept = []
    while len(kept) < b.count:
        gains = {}
        for v in b.visual:
            if v not in kept:
                near = [1 - float(torch.cosine_similarity(b.hidden[b.at(v)], b.hidden[b.at(k)], 0)) for k in kept]
                gains[v] = balance * received[v] / most + (1 - balance) * (min(near) if near else 0)
        kept += best(gains, 1)
    return kept


def topv(b):
    n, sizes = len(b.visual), b.facts["sizes"]
    place, start = {}, 0
    for image, (_, height, width) in enumerate(sizes):
        for i in range(height * width):
            place[b.all_visual[start + i]] = (image, i // width, i % width)
        start += height * width
    far = [[float((b.previous[b.at(v)] - b.hidden[b.at(w)]).norm()) for w in b.visual] for v in b.visual]
    mean = sum(map(sum, far)) / n**2
    cost = torch.zeros(n, n, dtype=torch.float64)
    for i, v in enumerate(b.visual):
        image, y, x = place[v]
        cy, cx = (sizes[image][1] - 1) / 2, (sizes[image][2] - 1) / 2
        centre = math.hypot(y - cy, x - cx) / max(math.hypot(cy, cx), 0.5)
        for j, w in enumerate(b.visual):
            other, y2, x2 = place[w]
            apart = 1 - math.exp(-((y - y2) ** 2 + (x - x2) ** 2) / 2) if other == image else 1.0
            cost[i, j] = far[i][j] / mean + apart + centre
    plan = torch.exp(-cost / 0.1)
    for _ in range(3):
        plan = plan / plan.sum(1, keepdim=True) / n
        plan = plan / plan.sum(0, keepdim=True) / n
    sent = dict(zip(b.visual, plan.sum(1).tolist(), strict=True))
    recovered = int(b.count * 0.1)
    kept = best(sent, b.count - recovered)
    rest = [v for v in b.visual if v not in kept]
    return [*kept, *(v for i, v in enumerate(rest) if (i + 1) * recovered // len(rest) > i * recovered // len(rest))]


def sparsevlm_rank(b, scale=0.9, bias=1.0):
    raters = naive_raters(b.embeddings, b.all_visual, text_rows(b))
    table = torch.stack([b.weights[:, b.at(t)][:, [b.at(v) for v in b.visual]].mean(0) for t in raters])
    values = torch.linalg.svdvals(table)
    count = min(b.count, math.floor(scale * int((values > 1e-5 * values[0]).sum()) + bias))
    return best(rows(b, b.weights, raters), count)


def sparsevlm_recycling(b):
    """(positions that stay, the mean state of each centre): of what is not kept, the best 30 % become a tenth of centres."""
    ranking = best(rows(b, b.weights, naive_raters(b.embeddings, b.all_visual, text_rows(b))), len(b.visual))
    for kept in range(b.count, -1, -1):  # survivors and centres together are what may stay
        left = len(b.visual) - kept
        pooled = min(left, int(left * 0.3) + 1)
        centres = min(b.count, pooled, int(pooled * 0.1) + 1)
        if kept + centres == b.count:
            break
    pool = sorted(ranking[kept : kept + pooled])
    groups = density_peaks(b, pool, centres)
    means = {c: torch.stack([b.hidden[b.at(v)] for v in group]).mean(0) for c, group in groups.items()}
    return sorted([*ranking[:kept], *groups]), means


def density_peaks(b, pool, centres):
    """The members of each group by its centre, the centre among them."""
    states = {v: b.hidden[b.at(v)].tolist() for v in pool}

    def apart(v, w):
        return math.dist(states[v], states[w]) / b.hidden.shape[-1] ** 0.5

    density = {}
    for v in pool:
        nearest = sorted(apart(v, w) for w in pool)[:5]
        early = 1e-6 * b.all_visual.index(v) / (len(b.all_visual) - 1)  # of equals, the earlier is denser
        density[v] = math.exp(-sum(d * d for d in nearest) / min(5, len(b.all_visual))) - early
    widest = max(apart(v, w) for v in pool for w in pool)
    peak = {}
    for v in pool:
        denser = [apart(v, w) for w in pool if density[w] > density[v]]
        peak[v] = density[v] * min([*denser, widest])
    chosen = best(peak, centres)
    groups = {c: [c] for c in sorted(chosen)}
    for v in pool:
        if v not in groups:
            groups[min(sorted(chosen), key=lambda c: (apart(v, c), c))].append(v)
    return groups
