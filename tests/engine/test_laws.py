"""The laws of the engine, each crossed over scorers, families, attention kernels and paddings."""

from __future__ import annotations

import math
from functools import cache

import pytest
import torch

from engine.naive import naive_prefill
from tiny import BUILDERS, DEFAULT, FIRST_CLASS, IMAGE, LAYERS, VIDEO, build, inputs, picture, tokens_of, words
from vispco import Pruner, Schedule
from vispco.core.errors import InvalidInputError
from vispco.engine.attention import AttentionCall
from vispco.engine.rows import attention_weights
from vispco.families import family_of
from vispco.scorers import SCORERS
from vispco.scorers.sparsevlm import SparseVLM

FAMILIES = list(BUILDERS)
CHAINS = ["random+fastv", "random+fitprune@2"]
KINDS = ["fastv", "sparsevlm", "fitprune", "random"]  # one for each thing that an engine can be asked for
MASKED = [*KINDS, *CHAINS]  # every method is crossed with the first-class families in tests/methods
ALL_SCORERS = [*MASKED, "recycling"]
PADDINGS = ["single", "left", "right"]
TOLERANCE = 1e-4
SCHEDULE = Schedule((1.0, 0.7, 0.7, 0.3))
EARLY = Schedule((0.8, 0.8, 0.7, 0.3))  # tokens leave before the language model too


def scorer_named(name):
    return SparseVLM(recycle=True) if name == "recycling" else name


def schedule_for(name):
    return EARLY if name in CHAINS else SCHEDULE


def batch(name, padding):
    """One sample, or three of different lengths."""
    if padding == "single":
        return inputs(name, [DEFAULT])
    samples = [DEFAULT, (words(1, 3), picture(2, 3), words(9, 4)), (words(3, 5), picture(3, 5), words(2, 6))]
    return inputs(name, samples, side=padding)


def text_of(x):
    return x["attention_mask"].bool() & (x["input_ids"] != IMAGE) & (x["input_ids"] != VIDEO)


def visual_counts(x):
    return ((x["input_ids"] == IMAGE) | (x["input_ids"] == VIDEO)).sum(-1).tolist()


@torch.no_grad()
def logits(model, x, pruner=None, **kwargs):
    if pruner is None:
        return model(**x, **kwargs).logits
    with pruner(model):
        return model(**x, **kwargs).logits


@cache
def untouched(family, attention, padding):
    """Logits and two generated tokens of the model as it is: what every scorer is held against."""
    model, x = build(family, attention), batch(family, padding)
    return logits(model, x), model.generate(**x, max_new_tokens=2, do_sample=False)


@cache
def pruned(scorer, family, attention, padding):
    """Logits with tokens dropped by SCHEDULE; two laws look at them."""
    return logits(build(family, attention), batch(family, padding), Pruner(scorer_named(scorer), schedule_for(scorer)))


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("scorer", ALL_SCORERS)
class TestEverywhere:
    """Laws that hold for every scorer, family, kernel and padding."""

    def test_full_retention_is_bit_identical(self, scorer, family, attention, padding):
        model, x = build(family, attention), batch(family, padding)
        whole, generated = untouched(family, attention, padding)
        for mode in ("drop", "mask") if scorer in MASKED else ("drop",):
            pruner = Pruner(scorer_named(scorer), Schedule.full(LAYERS), mode=mode)
            assert torch.equal(logits(model, x, pruner), whole)
        with Pruner(scorer_named(scorer), Schedule.full(LAYERS))(model):
            assert torch.equal(model.generate(**x, max_new_tokens=2, do_sample=False), generated)

    def test_masking_equals_dropping(self, scorer, family, attention, padding):
        if scorer not in MASKED:
            with pytest.raises(InvalidInputError, match="cannot be expressed by a mask"):
                Pruner(scorer_named(scorer), SCHEDULE, mode="mask").apply(build(family, attention))
            return
        model, x = build(family, attention), batch(family, padding)
        dropped = pruned(scorer, family, attention, padding)
        masked = logits(model, x, Pruner(scorer_named(scorer), schedule_for(scorer), mode="mask"))
        whole, _ = untouched(family, attention, padding)
        text = text_of(x)
        assert (dropped - masked)[text].abs().max() <= TOLERANCE
        assert (dropped - whole)[text].abs().max() > 100 * TOLERANCE, "nothing was pruned"

    def test_cache_lengths_are_the_schedules_counts_and_grow_by_what_is_generated(
        self, scorer, family, attention, padding
    ):
        model, x = build(family, attention), batch(family, padding)
        visual, text = visual_counts(x), text_of(x).sum(-1).tolist()
        counts = schedule_for(scorer).counts(visual).tolist()
        new = 2
        with Pruner(scorer_named(scorer), schedule_for(scorer))(model):
            out = model.generate(**x, max_new_tokens=new + 1, do_sample=False, return_dict_in_generate=True)
        windows = windows_of(model)
        for i, layer in enumerate(out.past_key_values.layers):
            pruned = any(c[i] < v for c, v in zip(counts, visual, strict=True))
            prompt = max(t + c[i] for t, c in zip(text, counts, strict=True)) if pruned else x["input_ids"].shape[1]
            expected = prompt + new
            held = expected if windows[i] is None else min(expected, windows[i] - 1)
            assert layer.keys.shape[-2] == layer.values.shape[-2] == held
            assert layer.get_seq_length() == x["input_ids"].shape[1] + new


def windows_of(model):
    config = family_of(model).text_model(model).config
    types = getattr(config, "layer_types", None) or ["full_attention"] * LAYERS
    return [config.sliding_window if t == "sliding_attention" else None for t in types]


@pytest.mark.parametrize("padding", ["left", "right"])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("scorer", ALL_SCORERS)
def test_a_sample_in_a_batch_equals_the_sample_alone(scorer, family, attention, padding):
    samples = mixed(family)
    x = inputs(family, samples, side=padding)
    together = logits(build(family, attention), x, Pruner(scorer_named(scorer), schedule_for(scorer)))
    for b in range(len(samples)):
        mine = together[b][x["attention_mask"][b].bool()]
        single, text = by_itself(scorer, family, attention, b)
        assert (mine - single)[text].abs().max() <= TOLERANCE


def mixed(family):
    """Samples of different lengths and pictures, one of them without."""
    samples = [
        DEFAULT,
        (words(1, 3), picture(2, 3), words(9, 4)),
        (words(4, 7),),
        (words(3, 5), picture(3, 5), words(2, 6)),
    ]
    if family in ("idefics3", "smolvlm"):
        samples.pop(2)  # these two pad their pixel tensors with empty pictures and drop them inside
    return samples


@cache
def by_itself(scorer, family, attention, b):
    """Logits of one of `mixed`, and where its text is; its padding in a batch is nothing to it."""
    samples = mixed(family)
    x, alone = inputs(family, samples), inputs(family, [samples[b]])
    for key in ("pixel_values", "image_grid_thw", "image_sizes"):
        if key in alone:
            alone[key] = slice_of(family, x, key, samples, b)
    return logits(build(family, attention), alone, Pruner(scorer_named(scorer), schedule_for(scorer)))[0], text_of(
        alone
    )[0]


def slice_of(family, x, key, samples, b):
    """The part of a batched picture input that belongs to one sample."""
    pictures = [[p for p in s if p.image] for s in samples]
    before, mine = sum(map(len, pictures[:b])), len(pictures[b])
    if family.startswith("qwen") and key == "pixel_values":
        sizes = [4 * tokens_of(family, p) for s in pictures for p in s]
        start = sum(sizes[:before])
        return x[key][start : start + sum(sizes[before : before + mine])]
    if family in ("idefics3", "smolvlm"):
        return x[key][b : b + 1]
    return x[key][before : before + mine]


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("scorer", ALL_SCORERS)
def test_sdpa_equals_eager(scorer, family, padding):
    sdpa, eager = (pruned(scorer, family, attention, padding) for attention in ("sdpa", "eager"))
    assert (sdpa - eager)[text_of(batch(family, padding))].abs().max() <= TOLERANCE


@pytest.mark.parametrize("use_cache", [True, False])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("scorer", ["fastv", "sparsevlm", "fitprune"])
def test_what_a_scorer_keeps_equals_its_card_from_eager_attentions(scorer, family, use_cache):
    x = batch(family, "single")
    states, kept = naive_prefill(build(family, "eager"), x, SCHEDULE.retention, scorer)
    model = build(family, "sdpa")
    positions = (x["input_ids"][0] == IMAGE).nonzero()[:, 0].tolist()
    pruner = Pruner(scorer, SCHEDULE, record=True)
    with torch.no_grad(), pruner(model):
        out = family_of(model).base(model)(**x, use_cache=use_cache).last_hidden_state[0]
        live = pruner.survivors(model)
    assert len(live) == LAYERS
    for mask, naive in zip(live, kept, strict=True):
        assert [p for p, alive in zip(positions, mask[0].tolist(), strict=True) if alive] == naive
    for position, state in states.items():
        torch.testing.assert_close(out[position], state, atol=TOLERANCE, rtol=0)


def test_random_keeps_the_same_tokens_for_the_same_seed_and_others_for_another():
    model, x = build("llava"), batch("llava", "single")
    kept = []
    for seed in (0, 0, 1):
        pruner = Pruner(SCORERS.get("random")(seed=seed), Schedule((0.5, 0.5, 0.5, 0.25)), record=True)
        with torch.no_grad(), pruner(model):
            model(**x)
            kept.append(pruner.survivors(model))
    assert torch.equal(kept[0][0], kept[1][0])
    assert not torch.equal(kept[0][0], kept[2][0])
    assert kept[0][0].sum() == 8
    assert bool((kept[0][3] <= kept[0][0]).all())


@pytest.mark.parametrize("family", FIRST_CLASS)
def test_sequences_longer_than_the_window_and_many_images_stay_exact(family):
    sample = (words(2, 1), picture(), words(6, 2), picture(4, 5), words(20, 3))
    x = inputs(family, [sample, (words(3, 4), picture(2, 2), words(30, 5))])
    for scorer in MASKED:
        for attention in ("sdpa", "eager"):
            model = build(family, attention)
            dropped = logits(model, x, Pruner(scorer_named(scorer), schedule_for(scorer)))
            masked = logits(model, x, Pruner(scorer_named(scorer), schedule_for(scorer), mode="mask"))
            assert (dropped - masked)[text_of(x)].abs().max() <= TOLERANCE


@pytest.mark.parametrize("family", FIRST_CLASS)
def test_decoding_equals_teacher_forcing(family):
    """Every token that generate() writes is the one that a pruned forward pass over prompt and answer prefers."""
    model, x = build(family), batch(family, "single")
    pruner = Pruner("fastv", SCHEDULE)
    with pruner(model):
        out = model.generate(**x, max_new_tokens=16, do_sample=False, return_dict_in_generate=True, output_logits=True)
    prompt = x["input_ids"].shape[1]
    new = out.sequences[:, prompt:]
    longer = {**x, "input_ids": out.sequences, "attention_mask": torch.ones_like(out.sequences)}
    for key in ("mm_token_type_ids", "token_type_ids"):
        if key in x:
            longer[key] = torch.cat([x[key], torch.zeros_like(new, dtype=x[key].dtype)], dim=1)
    labels = torch.full_like(out.sequences, -100)
    labels[:, prompt:] = new
    forced = logits(model, {**longer, "labels": labels}, pruner)
    stepwise = torch.stack(out.logits, dim=1)
    assert (forced[:, prompt - 1 : -1] - stepwise).abs().max() <= TOLERANCE


def test_counts_are_absolute_not_a_chain_of_ratios():
    model, x = build("llava"), batch("llava", "single")
    pruner = Pruner("fastv", Schedule((1.0, 0.51, 0.49, 0.26)), record=True)
    with torch.no_grad(), pruner(model):
        model(**x)
        found = [int(mask.sum()) for mask in pruner.survivors(model)]
    assert found == [16, *(math.floor(16 * r + 0.5) for r in (0.51, 0.49, 0.26))]


@pytest.mark.parametrize("scorer", ["sparsevlm", "fitprune", "himap(rows=visual)"])
def test_rows_that_are_summed_in_blocks_are_all_counted(scorer, monkeypatch):
    model, x = build("llava"), batch("llava", "left")
    whole = logits(model, x, Pruner(scorer, SCHEDULE))
    monkeypatch.setattr("vispco.engine.rows._BLOCK_ELEMENTS", 1)
    assert (logits(model, x, Pruner(scorer, SCHEDULE)) - whole)[text_of(x)].abs().max() <= TOLERANCE


def test_a_row_knows_of_softcaps_and_of_sinks():
    """Of the last query, head by head: a sink takes attention and gives nothing, a cap bends the logits."""
    generator = torch.Generator().manual_seed(0)
    query, key = (torch.randn(1, heads, 5, 8, generator=generator) for heads in (4, 2))
    sinks = torch.tensor([0.5, -1.0, 2.0, 0.0])
    call = AttentionCall(torch.nn.Identity(), query, key, None, None, {"softcap": 2.0, "s_aux": sinks})
    found = attention_weights(call, torch.tensor([[4]]))[0, :, 0]
    for head in range(4):
        raw = [float(query[0, head, 4] @ key[0, head // 2, place]) / math.sqrt(8) for place in range(5)]
        grown = [math.exp(2.0 * math.tanh(logit / 2.0)) for logit in raw]
        wanted = [each / (sum(grown) + math.exp(float(sinks[head]))) for each in grown]
        assert found[head].tolist() == pytest.approx(wanted, rel=1e-4)
