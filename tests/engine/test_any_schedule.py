"""Properties that hold for any schedule, length, padding and number of images."""

from __future__ import annotations

from itertools import pairwise

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tiny import FIRST_CLASS, IMAGE, LAYERS, build, inputs, picture, words
from vispco import Pruner, Schedule
from vispco.scorers import Chain
from vispco.scorers.sparsevlm import SparseVLM

TOLERANCE = 1e-4
BEFORE = ["uniform", "cdpruner", "divprune+fastv", "scope", "hiprune", "visionzip", "vscan", "aim-merge"]
SCORERS = [*BEFORE, "fastv", "sparsevlm", "fitprune", "random", "recycling", "random+fastv", "random+fitprune@2"]


@st.composite
def retentions(draw, first_full):
    """Non-increasing, with zeros, ones and plateaus as likely as anything between."""
    level = st.one_of(st.sampled_from([0.0, 0.5, 1.0]), st.floats(0, 1))
    rest = sorted(draw(st.lists(level, min_size=LAYERS - 1, max_size=LAYERS - 1)), reverse=True)
    first = 1.0 if first_full else draw(st.floats(rest[0], 1))
    return (first, *rest)


@st.composite
def samples(draw):
    parts = []
    for seed in range(draw(st.integers(0, 2))):
        parts += [words(draw(st.integers(1, 4)), seed + 1), picture(draw(st.integers(1, 4)), draw(st.integers(1, 4)))]
    return (*parts, words(draw(st.integers(1, 6)), 9))


@st.composite
def cases(draw):
    scorer = draw(st.sampled_from(SCORERS))
    batch = draw(st.lists(samples(), min_size=1, max_size=3))
    rows = [
        draw(retentions(first_full=Chain.of("fastv" if scorer == "recycling" else scorer).earliest_layer > 0))
        for _ in batch
    ]
    retention = rows[0] if draw(st.booleans()) else tuple(rows)
    return (
        draw(st.sampled_from(FIRST_CLASS)),
        draw(st.sampled_from(["sdpa", "eager"])),
        SparseVLM(recycle=True) if scorer == "recycling" else scorer,
        draw(st.sampled_from(["left", "right"])),
        batch,
        Schedule(retention),
    )


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(cases())
def test_masking_equals_dropping_and_caches_hold_what_the_schedule_keeps(case):
    family, attention, scorer, side, batch, schedule = case
    model, x = build(family, attention), inputs(family, batch, side=side)
    text = x["attention_mask"].bool() & (x["input_ids"] != IMAGE)
    pruner = Pruner(scorer, schedule, record=True)
    with torch.no_grad():
        with pruner(model):
            out = model(**x, use_cache=True)
            live = pruner.survivors(model) if bool((x["input_ids"] == IMAGE).any()) else []
        if not pruner.chain.merges:
            with Pruner(scorer, schedule, mode="mask")(model):
                masked = model(**x).logits
            assert (out.logits - masked)[text].abs().max() <= TOLERANCE
    assert out.logits.isfinite().all()
    if not live:
        return
    counts = schedule.counts((x["input_ids"] == IMAGE).sum(-1).tolist())
    assert torch.equal(torch.stack([mask.sum(-1) for mask in live], 1), counts)
    for layer, mask in zip(out.past_key_values.layers, live, strict=True):
        most = int((text.sum(-1) + mask.sum(-1)).max())
        held = layer.keys.shape[-2]
        window = getattr(layer, "sliding_window", None)
        assert held in {min(n, n if window is None else window - 1) for n in (most, x["input_ids"].shape[1])}
    for earlier, later in pairwise(live):
        assert bool((later <= earlier).all()), "a dropped token came back"


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(cases())
def test_generation_never_prunes_again(case):
    family, attention, scorer, _, batch, schedule = case
    model, x = build(family, attention), inputs(family, batch, side="left")
    with Pruner(scorer, schedule)(model):
        one = model.generate(**x, max_new_tokens=2, do_sample=False, return_dict_in_generate=True)
        many = model.generate(**x, max_new_tokens=5, do_sample=False, return_dict_in_generate=True)
    assert torch.equal(one.sequences, many.sequences[:, : one.sequences.shape[1]])
    for short, long in zip(one.past_key_values.layers, many.past_key_values.layers, strict=True):
        assert long.get_seq_length() - short.get_seq_length() == 3
        window = getattr(short, "sliding_window", None)
        grown = long.keys.shape[-2] - short.keys.shape[-2]
        assert grown == 3 or (window is not None and long.keys.shape[-2] == window - 1)
