"""Defects that were found in use, each with the test that would have found it."""

from __future__ import annotations

import copy
import gc
import weakref

import pytest
import torch

from engine.test_flops import counted
from tiny import DEFAULT, FIRST_CLASS, LAYERS, build, inputs, picture, words
from vispco import Pruner, Schedule, Scorer, cost
from vispco.families import family_of

SAMPLE = (words(3, 1), picture(3, 5), words(6, 2))
CURVE = Schedule((1.0, 0.6, 0.6, 0.2))


class Loud(Scorer):
    """Keeps the largest hidden states, and drops in the middle of a layer without reading attention."""

    name = "loud-mid"
    needs_attention = False
    needs_hidden = True
    site = "mid"

    def score(self, context):
        return context.hidden.float()[..., 0]


class Even(Scorer):
    """Keeps every other token, reads nothing, and drops in the middle of a layer."""

    name = "even-mid"
    needs_attention = False
    site = "mid"

    def score(self, context):
        width = context.live.shape[1]
        return (torch.arange(width) % 2 == 0).float().expand(context.live.shape)


@pytest.mark.parametrize("scorer", [Loud(), Even()], ids=lambda scorer: scorer.name)
@pytest.mark.parametrize("family", FIRST_CLASS)
def test_tokens_leave_in_the_middle_of_a_layer_whatever_the_scorer_reads(family, scorer):
    """They left at the entry, and were billed as if they had left in the middle."""
    model, x = build(family, "eager"), inputs(family, [SAMPLE])
    layout = family_of(model).layout(model, x)
    pruner = Pruner(scorer, CURVE)
    exact = cost.get("exact", model.config)
    counts = CURVE.counts(layout.num_visual)
    billed = {
        site: int(exact.price(counts, cost.Workload(layout.num_text, layout.num_visual, site))[0])
        for site in ("mid", "entry")
    }
    assert billed["mid"] < billed["entry"]
    assert counted(model, x, pruner) == billed["mid"]
    with torch.no_grad():
        with pruner(model):
            dropped = model(**x).logits[:, -1]
        with Pruner(scorer, CURVE, mode="mask")(model):
            masked = model(**x).logits[:, -1]
    torch.testing.assert_close(masked, dropped, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("family", FIRST_CLASS)
def test_a_model_whose_pruner_was_never_removed_is_freed(family):
    """A list of all engines kept it alive."""
    model = copy.deepcopy(build(family))
    pruner = Pruner("fastv", CURVE)
    pruner.apply(model)
    with torch.no_grad():
        model.generate(**inputs(family, [DEFAULT]), max_new_tokens=2, do_sample=False)
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None
    assert pruner.chain.name == "fastv"  # the pruner itself lives on


@pytest.mark.parametrize("family", FIRST_CLASS)
def test_the_layout_is_read_once_and_not_while_decoding(family, monkeypatch):
    """Reading it asks the device where the pictures are: a wait in every step of decoding."""
    model, x = build(family), inputs(family, [DEFAULT])
    kind = type(family_of(model))
    calls, layout = [], kind.layout
    monkeypatch.setattr(
        kind, "layout", lambda self, *args, **options: calls.append(1) or layout(self, *args, **options)
    )
    with Pruner("fastv", Schedule.single(2, 0.5, LAYERS))(model):
        model.generate(**x, max_new_tokens=6, min_new_tokens=6, do_sample=False)
    assert len(calls) == 1
