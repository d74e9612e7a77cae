"""Compensation: logits of the visual keys that are left += beta * log(shown / left), for text, wherever the engine runs."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from tiny import BUILDERS, DEFAULT, FIRST_CLASS, IMAGE, LAYERS, build, inputs, picture, words
from vispco import InvalidInputError, Pruner, Schedule, UnsupportedModelError
from vispco.check.oracle import oracle_prefill
from vispco.core.layout import TokenLayout
from vispco.engine.compensation import Compensation
from vispco.engine.plan import TokenPlan
from vispco.scorers import Chain, MixedChain

TOLERANCE = 1e-4
SCHEDULE = Schedule((1.0, 0.7, 0.7, 0.3))
EARLY = Schedule((0.5, 0.5, 0.4, 0.2))
SAMPLES = [
    DEFAULT,
    (words(1, 3), picture(2, 3), words(9, 4)),
    (words(3, 5), picture(), words(3, 6), picture(3, 3), words(2, 7)),
]


@torch.no_grad()
def logits(model, x, pruner=None):
    if pruner is None:
        return model(**x).logits
    with pruner(model):
        return model(**x).logits


def text_of(x):
    return x["attention_mask"].bool() & (x["input_ids"] != IMAGE)


@pytest.mark.parametrize("beta", [0.75, -0.5])
@pytest.mark.parametrize("scorer", ["random+fastv", "random", "random@1+fitprune@2", "random+pyramiddrop"])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("family", BUILDERS)
def test_masking_equals_dropping(family, attention, scorer, beta):
    model, schedule = build(family, attention), SCHEDULE if "@1" in scorer else EARLY
    for side in ("left", "right"):
        x = inputs(family, SAMPLES, side=side)
        dropped, masked = (
            logits(model, x, Pruner(scorer, schedule, mode=m, compensate=beta)) for m in ("drop", "mask")
        )
        text = text_of(x)
        assert (dropped - masked)[text].abs().max() <= TOLERANCE
        assert (dropped - logits(model, x, Pruner(scorer, schedule)))[text].abs().max() > 100 * TOLERANCE


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("family", FIRST_CLASS)
def test_logits_are_those_of_a_bias_written_entry_by_entry(family, attention):
    """Two pictures of which different shares are left, and counts that fall twice."""
    model, beta = build(family, attention), 0.75
    x = inputs(family, [(words(2, 1), picture(), words(3, 2), picture(3, 3), words(5, 3))])
    visual = (x["input_ids"][0] == IMAGE).nonzero()[:, 0].tolist()
    expected, kept = oracle_prefill(model, x, visual, SCHEDULE.retention, compensate=beta)
    pruner = Pruner("fastv", SCHEDULE, compensate=beta, record=True)
    with torch.no_grad(), pruner(model):
        found, live = model(**x).logits, pruner.survivors(model)
    assert [[p for p, alive in zip(visual, mask[0].tolist(), strict=True) if alive] for mask in live] == kept
    assert (found - expected)[text_of(x)].abs().max() <= TOLERANCE


@pytest.mark.parametrize("family", FIRST_CLASS)
def test_where_nothing_leaves_nothing_changes_and_zero_is_off(family):
    model, x = build(family), inputs(family, SAMPLES)
    whole, pruned = logits(model, x), logits(model, x, Pruner("fastv", SCHEDULE))
    for mode in ("drop", "mask"):
        full = Pruner("random+fastv", Schedule.full(LAYERS), mode=mode, compensate=0.75)
        assert torch.equal(logits(model, x, full), whole)
    assert torch.equal(logits(model, x, Pruner("fastv", SCHEDULE, compensate=0.0)), pruned)


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("family", FIRST_CLASS)
def test_decoding_equals_teacher_forcing(family, attention, padded):
    """The cache remembers the bias, also where a sliding window moves over it."""
    model, x = build(family, attention), inputs(family, SAMPLES if padded else SAMPLES[:1])
    pruner = Pruner("random+fastv", EARLY, compensate=0.75)
    with pruner(model):
        out = model.generate(**x, max_new_tokens=12, do_sample=False, return_dict_in_generate=True, output_logits=True)
    prompt = x["input_ids"].shape[1]
    new = out.sequences[:, prompt:]
    longer = {**x, "input_ids": out.sequences, "attention_mask": torch.cat([x["attention_mask"], new > -1], 1)}
    for key in ("mm_token_type_ids", "token_type_ids"):
        if key in x:
            longer[key] = torch.cat([x[key], torch.zeros_like(new, dtype=x[key].dtype)], dim=1)
    labels = torch.full_like(out.sequences, -100)
    labels[:, prompt:] = new
    forced = logits(model, {**longer, "labels": labels}, pruner)
    stepwise = torch.stack(out.logits, dim=1)
    assert (forced[:, prompt - 1 : -1] - stepwise).abs().max() <= TOLERANCE


@pytest.mark.parametrize("family", FIRST_CLASS)
def test_beams_are_those_of_generation_without_a_cache(family):
    model, x = build(family), inputs(family, SAMPLES)
    found = []
    for use_cache in (True, False):
        with Pruner("random+fastv", EARLY, compensate=1.0)(model):
            found.append(model.generate(**x, max_new_tokens=6, num_beams=3, do_sample=False, use_cache=use_cache))
    assert torch.equal(*found)


@pytest.mark.parametrize("mode", ["drop", "mask"])
@pytest.mark.parametrize("family", FIRST_CLASS)
def test_each_sample_of_a_mixed_batch_has_its_own_beta(family, mode):
    chains = ("compensate=0.75:random", "random", "compensate=-0.25:random+fastv")
    model, x = build(family), inputs(family, SAMPLES)
    counts = EARLY.counts

    def plan(layout, _):
        return TokenPlan(counts(layout.num_visual), groups=(0, 1, 2))

    together = logits(model, x, Pruner(MixedChain.of_chains(chains), plan, mode=mode))
    for number, chain in enumerate(chains):
        own = logits(model, x, Pruner(chain, EARLY, mode=mode))
        here = text_of(x)[number]
        assert (together[number] - own[number])[here].abs().max() <= TOLERANCE


def test_chains_that_differ_in_their_compensation_choose_once():
    """One choice for all samples whose scorer is the same, and none is mistaken for one that divides tokens otherwise."""
    calls = []

    class Counted(Chain.of("random").scorers[0].__class__):
        name = "counted"

        def select(self, context):
            calls.append(context.host_counts)
            return super().select(context)

    chain = Chain.of(Counted())
    alike = [chain.with_compensation(beta) for beta in (0.0, 0.5, 1.0)]
    mixed = MixedChain.of_chains([*alike, chain.with_allocation("equal"), chain.with_allocation("size")])
    model, x = build("llava"), inputs("llava", [DEFAULT] * 5)
    with torch.no_grad():
        logits(model, x, Pruner(mixed, lambda layout, _: TokenPlan(single(layout), groups=(0, 1, 2, 3, 4))))
    assert calls == [(8, 8, 8, 0, 0), (0, 0, 0, 8, 0), (0, 0, 0, 0, 8)]


def single(layout):
    return Schedule.single(1, 0.5, LAYERS).counts(layout.num_visual)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_runs_and_stays_finite(dtype):
    model, x = copy.deepcopy(build("gemma3")).to(dtype), inputs("gemma3", SAMPLES)  # others use the same model
    x["pixel_values"] = x["pixel_values"].to(dtype)
    for beta in (2.0, -1.0):
        pruner = Pruner("random+fastv", Schedule((0.1, 0.1, 0.1, 0.05)), compensate=beta)
        assert logits(model, x, pruner)[text_of(x)].isfinite().all()
        with pruner(model):
            model.generate(**x, max_new_tokens=3, do_sample=False)


@given(st.data())
def test_the_bias_is_the_formula(data):
    """By naive loops: pictures in runs, tokens that were merged or left out."""
    runs = data.draw(st.lists(st.lists(st.integers(1, 5), min_size=1, max_size=3), min_size=1, max_size=3))
    rows = [[bit for run in runs_ for bit in (*([1] * run), 0)] for runs_ in runs]
    width = max(map(len, rows))
    layout = TokenLayout.build(torch.tensor([row + [0] * (width - len(row)) for row in rows]).bool())
    V = layout.is_visual_slot.shape[1]
    live = torch.tensor(data.draw(st.lists(st.lists(st.booleans(), min_size=V, max_size=V), min_size=len(rows), max_size=len(rows))))  # fmt: skip
    live &= layout.is_visual_slot
    sizes = torch.tensor(data.draw(st.lists(st.lists(st.integers(1, 4), min_size=V, max_size=V), min_size=len(rows), max_size=len(rows)))).float()  # fmt: skip
    betas = data.draw(st.lists(st.floats(-1, 2, width=32), min_size=len(rows), max_size=len(rows)))
    merged = data.draw(st.booleans())
    found = Compensation(layout, tuple(betas)).bias(live.sum(-1).tolist(), live, sizes if merged else None)
    lost = [bool(b) and int(row.sum()) < n for b, row, n in zip(betas, live, layout.num_visual, strict=True)]
    assert (found is not None) == any(lost)
    if found is None:
        return
    for b, sample in enumerate(runs):
        slot = 0
        for shown in sample:
            slots = [s for s in range(slot, slot + shown) if live[b, s]]
            left = sum(float(sizes[b, s]) if merged else 1.0 for s in slots)
            for s in range(slot, slot + shown):
                size = float(sizes[b, s]) if merged else 1.0
                wanted = betas[b] * math.log(size * shown / left) if s in slots else 0.0
                assert float(found[b, s]) == pytest.approx(wanted, abs=1e-5)
            slot += shown
        assert (found[b, slot:] == 0).all()


def test_flash_attention_takes_no_bias():
    model = build("llava")
    text = model.config.get_text_config()
    text._attn_implementation_internal = "flash_attention_2"
    try:
        with pytest.raises(UnsupportedModelError, match=r"compensate .* flash attention takes no bias .*'sdpa'"):
            Pruner("fastv", SCHEDULE, compensate=0.5).apply(model)
        mixed = MixedChain.of_chains(["random", "compensate=0.5:random"])
        with pytest.raises(UnsupportedModelError, match="flash attention takes no bias"):
            Pruner(mixed, lambda *_: TokenPlan(torch.zeros(1, LAYERS).long(), groups=(0,))).apply(model)
    finally:
        text._attn_implementation_internal = "sdpa"


@pytest.mark.parametrize("given", ["much", 3, -2, float("nan"), True, None])
def test_what_is_no_compensation_is_refused(given):
    with pytest.raises(InvalidInputError, match=r"number from -1 to 2, such as 0\.75"):
        Chain.of("fastv").with_compensation(given)


def test_a_chain_is_written_and_read_with_its_compensation():
    for text in ("compensate=0.75:divprune", "equal:compensate=-0.25:divprune+fastv", "compensate=1:sparsevlm@4"):
        chain = Chain.of(text)
        assert str(chain) == text
        assert Chain.of(chain.to_dict()) == chain
    assert Chain.of("compensate=0:fastv").to_dict() == Chain.of("fastv").to_dict() == {"name": "fastv"}
    with pytest.raises(InvalidInputError, match="compensate='x'"):
        Chain.of("compensate=x:fastv")


def test_a_pruner_is_saved_with_it_and_an_old_one_has_none(tmp_path):
    pruner = Pruner("divprune", EARLY, compensate=0.75)
    pruner.save_pretrained(tmp_path)
    assert Pruner.from_pretrained(tmp_path).chain.compensate == 0.75
    assert Pruner.from_pretrained(tmp_path, compensate=0.0).chain == Chain.of("divprune")
    data = Pruner("divprune", EARLY).spec.to_dict()
    del data["compensate"]
    from vispco.pruner.pruner_spec import PrunerSpec

    old = PrunerSpec.from_dict(data)
    assert old.compensate is None
    assert old.chain.compensate == 0.0


@pytest.mark.parametrize("family", FIRST_CLASS)
def test_it_costs_no_flops(family):
    """By torch's own counter, under the kernel that it sees."""
    model, x = build(family), inputs(family, SAMPLES)
    found = []
    logits(model, x, Pruner("random+fastv", EARLY))  # the first prefill of a model is checked, which takes a row
    for beta in (0.0, 0.75):
        counter = FlopCounterMode(display=False)
        with sdpa_kernel(SDPBackend.MATH), counter:
            logits(model, x, Pruner("random+fastv", EARLY, compensate=beta))
        found.append(counter.get_total_flops())
    assert found[0] == found[1]
