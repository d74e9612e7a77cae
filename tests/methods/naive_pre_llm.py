"""Methods that choose before the language model, written from their cards: one sample, Python lists, float64.

Nothing of the engine or of the scorers is used. Each takes the states of the tokens that are left as a list of vectors, and
gives back the places of those that stay.
"""

from __future__ import annotations

import math
import statistics
from fractions import Fraction

import torch


def cosine(a, b):
    norm = math.sqrt(sum(x * x for x in a)) * math.sqrt(sum(x * x for x in b))
    return sum(x * y for x, y in zip(a, b, strict=True)) / norm if norm else 0.0


def first_best(candidates, value):
    """The candidate with the largest value; the earlier one where two are the same to ten digits."""
    best = max(value(c) for c in candidates)
    return next(c for c in candidates if value(c) > best - 1e-10 or value(c) == best)


def divprune(states, count):
    everyone, taken = range(len(states)), []
    while len(taken) < count:
        left = [i for i in everyone if i not in taken]

        def distance(i, taken=taken):
            others = taken or [j for j in everyone if j != i]
            return min((1 - cosine(states[i], states[j]) for j in others), default=math.inf)

        taken.append(first_best(left, distance))
    return taken


def scaled_relevance(states, text):
    mean = [sum(column) / len(text) for column in zip(*text, strict=True)]
    relevance = [cosine(s, mean) for s in states]
    least, most = min(relevance), max(relevance)
    return [(r - least + 1e-6) / (most - least) if most - least > 1e-6 else 1.0 for r in relevance]


def determinant(matrix):
    """By elimination."""
    rows, out = [list(row) for row in matrix], 1.0
    for i in range(len(rows)):
        out *= rows[i][i]
        if rows[i][i] <= 1e-12:
            return 0.0
        for j in range(i + 1, len(rows)):
            factor = rows[j][i] / rows[i][i]
            rows[j] = [x - factor * y for x, y in zip(rows[j], rows[i], strict=True)]
    return out


def cdpruner(states, text, count, weight=None):
    """Each next token is the one that makes the determinant of the chosen kernel largest."""
    if not states:
        return []
    relevance = scaled_relevance(states, text)

    def kernel(i, j):
        similar = cosine(states[i], states[j])
        conditional = relevance[i] * similar * relevance[j]
        return conditional if weight is None else (1 - weight) * similar + weight * conditional

    table = [[kernel(i, j) for j in range(len(states))] for i in range(len(states))]
    taken = []
    while len(taken) < count:
        before = determinant([[table[i][j] for j in taken] for i in taken])

        def gain(i, taken=taken, before=before):
            chosen = [*taken, i]
            after = determinant([[table[a][b] for b in chosen] for a in chosen])
            ratio = after / before if before else 0.0
            return ratio if ratio > 1e-6 else 0.0

        taken.append(first_best([i for i in range(len(states)) if i not in taken], gain))
    return taken


def cdpruner_openvino(states, text, count, weight=0.5):
    half = len(states) // 2
    first = cdpruner(states[:half], text, count // 2, weight)
    second = cdpruner(states[half:], text, count - count // 2, weight)
    return first + [half + i for i in second]


def bayer(row, column, size=64):
    """The recursive definition of Bayer's matrix, at any coordinates: blocks of two by two, the finest decides first."""
    if size == 1:
        return 0
    block = {(0, 0): 0, (1, 1): 1, (0, 1): 2, (1, 0): 3}[(row % 2, column % 2)]
    return block * (size // 2) ** 2 + bayer(row // 2, column // 2, size // 2)


def uniform(pictures, count):
    """pictures: for each picture or frame (rows, columns, the places in the grid that are left). -> places among all."""
    wanted, first = [], 0
    for rows, columns, left in pictures:
        order = sorted(left, key=lambda p: bayer((p // columns - rows // 2) % 64, (p % columns - columns // 2) % 64))
        wanted += [((order.index(p) + 0.5) / len(left), first + n) for n, p in enumerate(left)]
        first += len(left)
    return [place for _, place in sorted(wanted)[:count]]


def pixelprune(states, where, count):
    """Tokens that repeat what is left of them or above leave first; the others as divprune does. where: (picture, row, column)."""
    at = dict(zip(where, states, strict=True))
    fresh = []
    for place, (picture, row, column) in enumerate(where):
        left, above, corner = (at.get((picture, row - r, column - c)) for r, c in ((0, 1), (1, 0), (1, 1)))
        by_above = left is None or (None not in (above, corner) and corner == left and corner != above)
        if states[place] != (above if by_above else left):
            fresh.append(place)
    kept = [fresh[i] for i in divprune([states[i] for i in fresh], min(count, len(fresh)))]
    rest = [place for place in range(len(states)) if place not in fresh]
    return kept + rest[: count - len(kept)]


def lrcp(states, count, rank):
    """The residual of the singular value decomposition, squared; equal to five digits of the longest token is equal."""
    if not states:
        return []
    table = torch.tensor(states, dtype=torch.double)
    table = table - table.mean(0)
    directions = torch.linalg.svd(table)[2][:rank]
    left = [float(((row - sum(((row @ d) * d for d in directions), 0 * row)) ** 2).sum()) for row in table]
    longest = float((table**2).sum(-1).max()) or 1.0
    return best_first([round(value / (1e-5 * longest)) for value in left])[:count]


def evs(states, where, left, count, first="0.5"):
    """states, where: of all tokens, as vectors and (clip, frame, row, column); left: those of which it chooses, in order."""
    even = {}
    for clip, frame in sorted({where[p][:2] for p in left}):
        own = [(row, column) for c, f, row, column in where if (c, f) == (clip, frame)]
        rows, columns = max(own)[0] + 1, max(own)[1] + 1
        members = [p for p in left if where[p][:2] == (clip, frame)]
        members.sort(key=lambda p: bayer((where[p][2] - rows // 2) % 64, (where[p][3] - columns // 2) % 64))
        even |= {p: (k + 0.5) / len(members) for k, p in enumerate(members)}
    change = {}
    for place in left:
        clip, frame, *cell = where[place]
        if frame:
            change[place] = 1 - cosine(states[place], states[where.index((clip, frame - 1, *cell))])
    opens = sorted((p for p in left if p not in change), key=lambda p: (even[p], p))
    taken = opens[: math.floor(count * Fraction(first))]
    taken += sorted(change, key=lambda p: (-change[p], p))[: count - len(taken)]
    return taken + [p for p in opens if p not in taken][: count - len(taken)]


def vidcom2(states, where, count):
    """where: (clip, frame) of each token."""
    everyone = range(len(states))
    columns = list(zip(*states, strict=True))
    steady = sorted(range(len(columns)), key=lambda c: (statistics.pvariance(columns[c]), c))[: (len(columns) + 1) // 2]
    unit = []
    for state in states:
        few = [state[c] for c in steady]
        length = math.sqrt(sum(x * x for x in few))
        unit.append([x / length if length else 0.0 for x in few])

    def likeness(i, members):
        centre = mean([unit[j] for j in members])
        square = sum((x - c) ** 2 for x, c in zip(unit[i], centre, strict=True))
        return sum(math.exp(-square / (2 * 2**power)) for power in range(-3, 2))

    clips = {i: [j for j in everyone if where[j][0] == where[i][0]] for i in everyone}
    frames = {i: [j for j in everyone if where[j] == where[i]] for i in everyone}
    to_clip = {i: likeness(i, clips[i]) for i in everyone}
    both = {i: to_clip[i] + likeness(i, frames[i]) for i in everyone}
    seats = {}
    for i in everyone:
        own = sorted({where[j] for j in clips[i]})
        weight = {
            key: math.exp(-100 * statistics.fmean(to_clip[j] for j in everyone if where[j] == key)) for key in own
        }
        part = len(frames[i]) * (1 + weight[where[i]] / sum(weight.values()) - 1 / len(own))
        place = sorted(frames[i], key=lambda j: (float32(both[j]), j)).index(i)
        seats[i] = float32((place + 0.5) / part)
    return sorted(everyone, key=lambda i: (seats[i], i))[:count]


def float32(value):
    """What is left of a number when scores are ranked."""
    return float(torch.tensor(value, dtype=torch.float32))


def best_first(values, among=None):
    """Places by falling value, the earlier first where values are equal."""
    return sorted(range(len(values)) if among is None else among, key=lambda i: (-values[i], i))


def mean(vectors):
    return [sum(column) / len(vectors) for column in zip(*vectors, strict=True)]


def nearest(states, token, others):
    return first_best(others, lambda other: cosine(states[token], states[other]))


def visionzip(attention, keys, states, count, share="0.15625"):
    """(kept, {place: merged state})"""
    contextual = int(Fraction(share) * count)
    dominant = best_first(attention)[: count - contextual]
    rest = [i for i in range(len(attention)) if i not in dominant]
    step = max(1, len(rest) // contextual) if contextual else 1
    targets = rest[::step][:contextual]
    merged = {}
    for target in targets:
        joined = [i for i in rest if i not in targets and nearest(keys, i, targets) == target]
        more = mean([states[i] for i in joined]) if joined else [0.0] * len(states[target])
        merged[target] = [a + b for a, b in zip(states[target], more, strict=True)]
    return dominant + targets, merged


def vispruner(attention, features, count, ratio="0.5"):
    important = int(Fraction(ratio) * count)
    line, wanted = best_first(attention), count - important
    kept, line = line[:important], line[important:]
    while wanted and len(line) > wanted:
        even, odd = line[::2], line[1::2]
        alike = [max(round(cosine(features[i], features[j]), 10) for j in odd) for i in even]
        leaving = min(8, len(line) - wanted, len(even))
        line = [even[i] for i in best_first(alike)[leaving:]] + odd
    return kept + (line if wanted else [])


def scope(attention, features, count, alpha=1.0):
    taken, cover = [], [0.0] * len(features)
    similar = [[cosine(a, b) for b in features] for a in features]
    while len(taken) < count:

        def gain(j, cover=cover):
            return sum(max(0.0, s - c) for s, c in zip(similar[j], cover, strict=True)) * attention[j] ** alpha

        taken.append(first_best([i for i in range(len(features)) if i not in taken], gain))
        cover = [max(c, s) for c, s in zip(cover, similar[taken[-1]], strict=True)]
    return taken


def cells(sizes, left):
    """(picture, row, column) of each place that is left."""
    every = [(p, r, c) for p, (rows, columns) in enumerate(sizes) for r in range(rows) for c in range(columns)]
    return [every[i] for i in left]


def hiprune(middle, last, where, count, alpha):
    anchors = best_first(middle)[: round(count * alpha / 5)]
    near = []
    for i in best_first(last):
        beside = [a for a in anchors if where[a][0] == where[i][0]]
        steps = [abs(where[a][1] - where[i][1]) + abs(where[a][2] - where[i][2]) for a in beside]
        if i not in anchors and 1 in steps:
            near.append(i)
    kept = (anchors + near)[:count]
    return kept + [i for i in best_first(last) if i not in kept][: count - len(kept)]


def vscan(early, last, where, sizes, count):
    half, windows = count // 2, sum(max(1, r // 4) * max(1, c // 4) for r, c in sizes)
    limit, filled, kept = math.ceil(half / windows), {}, []
    for i in best_first(early):
        picture, row, column = where[i]
        rows, columns = sizes[picture]
        window = (picture, min(row // 4, max(1, rows // 4) - 1), min(column // 4, max(1, columns // 4) - 1))
        if len(kept) < half and filled.get(window, 0) < limit:
            filled[window] = filled.get(window, 0) + 1
            kept.append(i)
    return kept + [i for i in best_first(last) if i not in kept][: count - len(kept)]


def vscan_merge(states, kept):
    groups = {k: [k] for k in kept}
    for i in range(len(states)):
        if kept and i not in kept:
            groups[nearest(states, i, sorted(kept))].append(i)
    return {k: mean([states[i] for i in group]) for k, group in groups.items()}


def aim_merge(states, where, count):
    """(kept, {place: merged state})"""
    values, alive = dict(enumerate(states)), list(range(len(states)))
    while len(alive) > count:
        pairs = []
        for picture in sorted({where[i][0] for i in alive}):
            line = [i for i in alive if where[i][0] == picture]
            for source in line[::2]:
                if line[1::2]:
                    target = nearest(values, source, line[1::2])
                    pairs.append((-round(cosine(values[source], values[target]), 10), source, target))
        pairs = sorted(pairs)[: min(len(alive) - count, len(alive) // 2)]
        if not pairs:
            break
        for target in {pair[2] for pair in pairs}:
            group = [target, *(source for _, source, t in pairs if t == target)]
            values[target] = mean([values[i] for i in group])
        alive = [i for i in alive if i not in [pair[1] for pair in pairs]]
    return alive[:count], {i: values[i] for i in alive[:count]}


def prumerge(attention, keys, states, count, *, adaptive=True):
    """(kept, {place: merged state})"""
    if not attention or not count:
        return [], {}
    if adaptive:
        lower, _, upper = (
            statistics.quantiles(attention, n=4, method="inclusive") if len(attention) > 1 else attention * 3
        )
        bound = upper + 1.5 * (upper - lower)
        count = min(count, max(1, sum(value > bound for value in attention)))
    kept = best_first(attention)[:count]
    merged = {k: list(states[k]) for k in kept}
    for i in range(len(states)):
        if i not in kept:
            target = nearest(keys, i, sorted(kept))
            merged[target] = [a + attention[i] * b for a, b in zip(merged[target], states[i], strict=True)]
    return kept, merged
