"""Methods that choose before the language model, written from their cards: one sample, Python lists, float64.

Nothing of the engine or of the scorers is used. Each takes the states of the tokens that are left as a list of vectors, and
gives back the places of those that stay.
"""

from __future__ import annotations

import math


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
