"""Methods that choose before the language model keep what a naive reading of their cards keeps, in any batch."""

from __future__ import annotations

from functools import cache

import pytest
import torch

from engine.naive import record_layers
from methods import naive_pre_llm as naive
from tiny import DEFAULT, FIRST_CLASS, IMAGE, LAYERS, build, inputs, picture, words
from vispco import Pruner, Schedule
from vispco.errors import InvalidInputError
from vispco.layout import TokenLayout
from vispco.scorers import Chain, get
from vispco.scorers.context import ScoringContext

SAMPLES = {
    "one picture": DEFAULT,
    "two pictures": (words(1, 3), picture(2, 3), words(2, 7), picture(4, 2), words(4, 4)),
    "one token": (words(3, 5), picture(1, 1), words(2, 6)),
}
BY_SAMPLE = ("input_ids", "attention_mask", "mm_token_type_ids", "token_type_ids")


def sizes_of(name, sample):
    """Token grids of a sample's pictures."""
    return [part.image if name.startswith("qwen") else (4, 4) for part in sample if part.image]


def alone(name, sample):
    """A sample by itself, with the pixels that it has in a batch of all."""
    before = list(SAMPLES).index(sample)
    x = inputs(name, [()] * before + [SAMPLES[sample]])
    return {key: value[before:] if key in BY_SAMPLE else value for key, value in x.items()}


class Seen:
    """What a method may look at in one sample, as lists."""

    def __init__(self, name, sample):
        x = alone(name, sample)
        ids = x["input_ids"][0]
        with torch.no_grad():
            states = record_layers(build(name), x)[0][0][0].double()
        visual = (ids == IMAGE).nonzero()[:, 0].tolist()
        self.states = states[visual].tolist()
        self.text = [states[i].tolist() for i in range(visual[0], len(ids)) if ids[i] != IMAGE]
        self.sizes = sizes_of(name, SAMPLES[sample])

    def pictures(self, left):
        """For each picture its rows, its columns, and which of its cells are left."""
        out, first = [], 0
        for rows, columns in self.sizes:
            cells = [i - first for i in left if first <= i < first + rows * columns]
            out.append((rows, columns, cells))
            first += rows * columns
        return out


NAIVE = {
    "divprune": lambda seen, left, k: naive.divprune([seen.states[i] for i in left], k),
    "cdpruner": lambda seen, left, k: naive.cdpruner([seen.states[i] for i in left], seen.text, k),
    "cdpruner(variant=openvino,relevance_weight=0.3)": lambda seen, left, k: naive.cdpruner_openvino(
        [seen.states[i] for i in left], seen.text, k, 0.3
    ),
    "uniform": lambda seen, left, k: naive.uniform(seen.pictures(left), k),
}
METHODS = list(NAIVE)


@cache
def expected(method, name, sample, counts):
    """Which tokens each layer sees, by the naive method: a tuple of places for each count."""
    seen = Seen(name, sample)
    left, out = list(range(len(seen.states))), []
    for count in counts:
        if count < len(left):
            left = sorted(left[i] for i in NAIVE[method](seen, left, count))
        out.append(left)
    return out


@torch.no_grad()
def survivors(method, name, samples, retention, mode="drop", side="left"):
    """(places that each layer sees for each sample [B][L], logits)"""
    model, pruner = build(name), Pruner(method, Schedule(retention), mode=mode, record=True)
    x = alone(name, *samples) if len(samples) == 1 else inputs(name, [SAMPLES[s] for s in samples], side=side)
    with pruner(model):
        logits = model(**x).logits
        masks = pruner.survivors(model)
    return [[mask[b].nonzero()[:, 0].tolist() for mask in masks] for b in range(len(samples))], logits, x


def counts_of(name, sample, retention):
    total = sum(rows * columns for rows, columns in sizes_of(name, SAMPLES[sample]))
    return tuple(int(r * total + 0.5) for r in retention)


@pytest.mark.parametrize("retention", [(0.6, 0.6, 0.3, 0.1), (1.0, 0.5, 0.0, 0.0)], ids=["from layer 0", "to none"])
@pytest.mark.parametrize("name", FIRST_CLASS)
@pytest.mark.parametrize("method", METHODS)
def test_a_method_keeps_what_a_naive_loop_keeps(method, name, retention):
    samples = [s for s in SAMPLES if s != "one token" or name.startswith("qwen")]
    kept, _, _ = survivors(method, name, samples, retention)
    for sample, rows in zip(samples, kept, strict=True):
        assert rows == expected(method, name, sample, counts_of(name, sample, retention)), sample


@pytest.mark.parametrize("name", FIRST_CLASS)
@pytest.mark.parametrize("method", METHODS)
def test_masking_equals_dropping_and_padding_changes_nothing(method, name):
    retention, samples = (0.6, 0.6, 0.3, 0.1), ["one picture", "two pictures"]
    dropped, logits, x = survivors(method, name, samples, retention)
    for mode, side in (("mask", "left"), ("drop", "right")):
        same, others, y = survivors(method, name, samples, retention, mode, side)
        assert same == dropped
        for b in range(len(samples)):
            here, there = (z["attention_mask"][b].bool() & (z["input_ids"][b] != IMAGE) for z in (x, y))
            torch.testing.assert_close(logits[b][here], others[b][there], atol=1e-4, rtol=1e-4)
    for b, sample in enumerate(samples):
        alone, others, y = survivors(method, name, [sample], retention)
        assert alone[0] == dropped[b]
        here = x["attention_mask"][b].bool() & (x["input_ids"][b] != IMAGE)
        torch.testing.assert_close(logits[b][here], others[0][y["input_ids"][0] != IMAGE], atol=1e-4, rtol=1e-4)


def context_of(states, text, counts, live=None, sizes=None):
    """A context by hand. states: [B, V, D] visual tokens, then text [B, T, D]."""
    batch, visual = states.shape[:2]
    width = visual + text.shape[1]
    mask = (torch.arange(width) < visual).expand(batch, -1)
    layout = TokenLayout.build(mask, image_sizes=sizes or ((1, 1, visual),) * batch)
    live = torch.ones(batch, visual, dtype=torch.bool) if live is None else live
    embeddings = torch.cat([states, text], dim=1)
    return ScoringContext(
        0, layout, live, torch.tensor(counts), embeddings, torch.ones(batch, visual), max(counts), hidden=states
    )


def chosen(method, context):
    scorer = Chain.of(method).scorers[0]
    selection = scorer.select(context)
    assert bool((selection.keep <= context.live).all())
    assert bool((selection.keep.sum(-1) <= context.counts).all())
    kept = selection.scores.masked_fill(~selection.keep, torch.inf).amin(-1)
    left = selection.scores.masked_fill(selection.keep | ~context.live, -torch.inf).amax(-1)
    assert bool((kept >= left).all())  # what a relaxation ranks by agrees with the choice
    return [row.nonzero()[:, 0].tolist() for row in selection.keep]


@pytest.mark.parametrize("method", ["divprune", "cdpruner", "cdpruner(variant=openvino,relevance_weight=0.3)"])
def test_equal_tokens_go_to_the_earlier_one(method):
    signs = torch.tensor([[1.0, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1]])  # exact in floats, and orthogonal
    states = signs[[0, 0, 1, 1, 2, 0]][None]
    text = signs[1:2][None]
    seen = type("Seen", (), {"states": states[0].tolist(), "text": text[0].tolist()})
    for count in range(7):
        wanted = sorted(NAIVE[method](seen, list(range(6)), count))
        assert chosen(method, context_of(states, text, [count]))[0] == wanted, count


@pytest.mark.parametrize("method", [m for m in METHODS if m != "uniform"])
def test_counts_and_live_tokens_differ_by_sample(method):
    generator = torch.Generator().manual_seed(1)
    states, text = torch.randn(4, 9, 8, generator=generator), torch.randn(4, 3, 8, generator=generator)
    live = torch.rand(4, 9, generator=generator) < 0.7
    live[3] = False
    live[3, 4] = True
    counts = [3, int(live[1].sum()), 0, 1]
    found = chosen(method, context_of(states, text, counts, live))
    for b, count in enumerate(counts):
        left = live[b].nonzero()[:, 0].tolist()
        seen = type("Seen", (), {"states": states[b].double().tolist(), "text": text[b].double().tolist()})
        assert found[b] == sorted(left[i] for i in NAIVE[method](seen, left, count)), b


def test_an_even_quarter_of_a_grid_is_every_second_row_and_column():
    states, text = torch.zeros(1, 64, 4), torch.zeros(1, 1, 4)
    kept = chosen("uniform", context_of(states, text, [16], sizes=((1, 8, 8),)))[0]
    assert kept == [8 * row + column for row in range(0, 8, 2) for column in range(0, 8, 2)]
    assert chosen("uniform", context_of(states, text, [1], sizes=((1, 8, 8),)))[0] == [8 * 4 + 4]


def test_pictures_and_frames_get_even_shares():
    states, text = torch.zeros(1, 24, 4), torch.zeros(1, 1, 4)
    kept = chosen("uniform", context_of(states, text, [6], sizes=((2, 2, 4), (1, 2, 4))))[0]
    assert [sum(k // 8 == part for k in kept) for part in range(3)] == [2, 2, 2]


@pytest.mark.parametrize("options", [{"variant": "intel"}, {"relevance_weight": 1.5}])
def test_options_out_of_range_are_refused(options):
    with pytest.raises(InvalidInputError, match="cdpruner"):
        get("cdpruner", **options)


def test_they_may_choose_before_the_language_model_and_at_any_depth():
    for method in METHODS:
        assert Chain.of(method).earliest_layer == 0
        assert Chain.of(f"{method}@{LAYERS - 1}").earliest_layer == LAYERS - 1
