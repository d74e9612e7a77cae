"""Published settings: the tokens that their papers print, on other depths, and at budgets."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from methods.test_learned import fresh
from tiny import DEFAULT, FIRST_CLASS, IMAGE, LAYERS, build, inputs, picture, words
from vispco import cost
from vispco.core.errors import InvalidInputError, UnknownNameError
from vispco.cost import Dimensions, Workload
from vispco.pruner import presets
from vispco.pruner.presets import mean_tokens
from vispco.scorers.learned import LearnedScorer

LLAVA_7B = Dimensions(
    num_layers=32,
    hidden=4096,
    heads=32,
    kv_heads=32,
    head_dim=128,
    ffn=11008,
    gated=True,
    windows=(None,) * 32,
    vocab=32064,
    dtype_bytes=2,
)
# mean visual tokens of a layer on LLaVA-1.5-7B, as the methods' cards have them
CARDS = [
    ("fastv", "inputs", 306.0),
    ("fastv:k2-r75", "inputs", 171.0),
    ("sparsevlm:192", "inputs", 206.5),
    ("sparsevlm:192", "outputs", 192.03),
    ("sparsevlm:128", "inputs", 145.4),
    ("sparsevlm:64", "inputs", 82.3),
    ("v2drop", "inputs", 202.8),
    ("pyramiddrop", "inputs", 270.0),
    ("vtw", "inputs", 270.0),
    ("himap", "inputs", 144.0),
    ("priortr:64", "inputs", 112.0),
    ("priortr:128", "inputs", 170.0),
    ("priortr:192", "inputs", 228.0),
    ("dart:192", "inputs", 216.0),
    ("vscan", "inputs", 64.0),
]


def resized(num_layers):
    return Dimensions(**{**LLAVA_7B.to_dict(), "num_layers": num_layers, "windows": (None,) * num_layers})


def counts_of(method, num_layers=32, num_visual=576):
    preset, setting = presets.parse(method)
    return preset.schedule(num_layers, num_visual, setting).counts([num_visual])[0]


def test_aim_keeps_two_thirds_of_what_it_has_merged_to_a_quarter():
    assert float(mean_tokens(counts_of("aim", 28))) == pytest.approx(0.66 * 144, rel=0.005)


@pytest.mark.parametrize(("method", "over", "tokens"), CARDS)
def test_the_tokens_of_a_published_setting_are_those_of_its_card(method, over, tokens):
    assert float(mean_tokens(counts_of(method), over)) == pytest.approx(tokens, abs=0.05)


@pytest.mark.parametrize("num_layers", [4, 10, 28, 36, 80])
@pytest.mark.parametrize("name", presets.PRESETS)
def test_every_setting_fits_every_depth(name, num_layers):
    preset = presets.get(name)
    assert presets.parse(name) == (preset, preset.default)
    for setting in preset.settings:
        chain = preset.chain_for(num_layers, setting)
        counts = preset.schedule(num_layers, [576, 1, 0, 16], setting).counts([576, 1, 0, 16])
        assert counts.shape == (4, num_layers)
        assert bool((counts[:, : chain.earliest_layer] == torch.tensor([[576], [1], [0], [16]])).all())
        assert chain.decides_count or counts[0, -1] < 576
        assert chain.stages[-1][0] < num_layers


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(list(presets.PRESETS)),
    num_layers=st.sampled_from([4, 10, 28, 32]),
    budget=st.floats(0.05, 1.0),
    text=st.integers(1, 200),
    visual=st.integers(0, 700),
)
@pytest.mark.filterwarnings("ignore::vispco.cost.BudgetWarning")
def test_a_method_at_a_budget_never_exceeds_it(name, num_layers, budget, text, visual):
    preset, price = presets.get(name), cost.Exact(resized(num_layers))
    chain = preset.chain_for(num_layers)
    size = Workload([text], [visual], chain.sites(num_layers), chain.earliest_layer)
    counts = preset.counts_at_budget(budget, price, size)
    assert bool((counts.diff(dim=-1) <= 0).all())
    assert bool((counts[:, : chain.earliest_layer] == visual).all())
    allowed = max(budget, float(price.lowest_fraction(size)[0])) if visual else 1.0
    assert float(price.fraction_of_counts(counts, size)[0]) <= allowed


@pytest.mark.parametrize("name", presets.PRESETS)
@pytest.mark.parametrize("budget", [0.9, 0.5, 0.3, 0.2])
def test_a_method_at_a_budget_uses_it(name, budget):
    """On LLaVA-1.5-7B; VTW can only add whole layers."""
    preset, price = presets.get(name), cost.Exact(LLAVA_7B)
    chain = preset.chain_for(32)
    size = Workload(64, 576, chain.sites(32), chain.earliest_layer)
    schedule = preset.at_budget(budget, price, size)
    spent = float(price.fraction(schedule.tensor(), size))
    coarse = 1 / 32 if name == "vtw" else 0.006
    assert budget - coarse <= spent <= budget


def test_stages_stay_where_they_are_while_the_budget_allows():
    price, size = cost.Exact(LLAVA_7B), Workload(64, 576)
    half = presets.get("sparsevlm").at_budget(0.3, price, size).counts([576])[0]
    assert [i for i in range(1, 32) if half[i] < half[i - 1]] == [3, 7, 16]
    assert float(half[7] / half[3]) == pytest.approx(204 / 309, abs=0.01)
    tight = presets.get("sparsevlm").at_budget(0.15, price, size).counts([576])[0]
    assert next(i for i in range(1, 32) if tight[i] < tight[i - 1]) < 3


def on_budget(name, model, budget):
    """The pruner of a preset; methods that are learned have weights that are drawn."""
    pruner = presets.pruner(name, model.config, budget=budget)
    stages = tuple((n, fresh(s.name, model) if isinstance(s, LearnedScorer) else s) for n, s in pruner.chain.stages)
    pruner.chain = pruner.schedule.chain = replace(pruner.chain, stages=stages)
    return pruner


@pytest.mark.parametrize("family", FIRST_CLASS)
@pytest.mark.parametrize("name", presets.PRESETS)
@pytest.mark.filterwarnings("ignore::vispco.cost.BudgetWarning")
def test_a_preset_counts_what_it_says_and_holds_a_budget_in_every_padded_batch(name, family):
    """One picture, two pictures, a picture of one token where a model has such: each sample meets the budget or its floor."""
    model, price = build(family), cost.get("exact", build(family).config)
    samples = [
        DEFAULT,
        (words(1, 3), picture(2, 3), words(3, 4), picture(4, 4), words(2, 1)),
        (words(3, 5), picture(1, 1), words(2, 6)),
    ]
    found = {}
    for budget, side in ((None, "left"), (0.7, "left"), (0.7, "right")):
        x = inputs(family, samples, side=side)
        pruner = on_budget(name, model, budget)
        with torch.no_grad(), pruner(model):
            assert bool(model(**x).logits.isfinite().all())
            found[budget, side] = pruner.token_counts(model)
    visual, counts = (x["input_ids"] == IMAGE).sum(-1), found[0.7, "left"]
    assert torch.equal(counts, found[0.7, "right"])
    published = presets.get(name).schedule(LAYERS, visual.tolist()).counts(visual.tolist())
    known = found[None, "left"]
    assert bool((known <= published).all() if pruner.chain.decides_count else (known == published).all())
    size = Workload(
        x["attention_mask"].sum(-1) - visual, visual, pruner.chain.sites(LAYERS), pruner.chain.earliest_layer
    )
    assert bool((price.fraction_of_counts(counts, size) <= price.lowest_fraction(size).clamp(min=0.7) + 1e-9).all())
    assert bool((counts[:2, -1] < visual[:2]).all())


def test_a_misspelt_method_or_setting_is_answered_with_the_nearest():
    with pytest.raises(UnknownNameError, match="fastv"):
        presets.get("fastw")
    with pytest.raises(UnknownNameError, match="192"):
        presets.parse("sparsevlm:193")
    with pytest.raises(InvalidInputError, match="above 0"):
        presets.pruner("fastv", build("llava"), budget=1.5)
