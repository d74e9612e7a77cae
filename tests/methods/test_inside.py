"""Methods that choose inside the language model: each keeps what its card says, and obeys the engine's laws."""

from __future__ import annotations

import pytest
import torch

from methods import naive_inside as naive
from tiny import DEFAULT, FIRST_CLASS, IMAGE, LAYERS, build, inputs, picture, words
from vispco import Pruner, Schedule
from vispco.families import family_of

TOLERANCE = 1e-4
METHODS = {"v2drop": naive.v2drop}
SAMPLES = {
    "one picture": DEFAULT,
    "two pictures": (words(2, 1), picture(), words(3, 2), picture(3, 2), words(4, 3)),
    "no text after the picture": (words(4, 4), picture(2, 3)),
}
RETENTIONS = {
    "two drops": (1.0, 0.7, 0.7, 0.3),
    "at every layer": (1.0, 0.8, 0.5, 0.2),
    "down to one token": (1.0, 0.5, 0.02, 0.02),
    "all pruned": (1.0, 1.0, 0.4, 0.0),
}


def batch(family, side="left"):
    samples = [DEFAULT, (words(1, 3), picture(2, 3), words(9, 4)), (words(3, 5), picture(3, 5), words(2, 6))]
    return inputs(family, samples, side=side)


def text_of(x):
    return x["attention_mask"].bool() & (x["input_ids"] != IMAGE)


def logits(model, x, pruner):
    with torch.no_grad(), pruner(model):
        return model(**x).logits


def survivors(model, x, pruner):
    """Positions of the visual tokens that entered each layer, of the one sample; and the states at the end."""
    positions = (x["input_ids"][0] == IMAGE).nonzero()[:, 0].tolist()
    with torch.no_grad(), pruner(model):
        states = family_of(model).base(model)(**x).last_hidden_state[0]
        live = pruner.survivors(model)
    return [[p for p, alive in zip(positions, mask[0].tolist(), strict=True) if alive] for mask in live], states


@pytest.mark.parametrize("retention", RETENTIONS)
@pytest.mark.parametrize("sample", SAMPLES)
@pytest.mark.parametrize("family", FIRST_CLASS)
@pytest.mark.parametrize("method", METHODS)
def test_a_method_keeps_what_its_card_says(method, family, sample, retention):
    x, schedule = inputs(family, [SAMPLES[sample]]), Schedule(RETENTIONS[retention])
    count = int((x["input_ids"] == IMAGE).sum())
    states, kept = naive.naive_run(build(family, "eager"), x, schedule.counts([count])[0].tolist(), METHODS[method])
    found, out = survivors(build(family), x, Pruner(method, schedule, record=True))
    assert found == kept
    for position, state in states.items():
        torch.testing.assert_close(out[position], state, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("family", FIRST_CLASS)
@pytest.mark.parametrize("method", METHODS)
class TestLaws:
    def test_masking_equals_dropping(self, method, family, attention, side):
        model, x = build(family, attention), batch(family, side)
        for retention in RETENTIONS.values():
            dropped = logits(model, x, Pruner(method, Schedule(retention)))
            masked = logits(model, x, Pruner(method, Schedule(retention), mode="mask"))
            assert (dropped - masked)[text_of(x)].abs().max() <= TOLERANCE

    def test_a_padded_sample_equals_the_sample_alone(self, method, family, attention, side):
        samples = [DEFAULT, (words(1, 3), picture(), words(9, 4)), (words(3, 5), picture(), words(2, 6))]
        model, x = build(family, attention), inputs(family, samples, side=side)
        pruner = Pruner(method, Schedule((1.0, 0.7, 0.7, 0.3)))
        together = logits(model, x, pruner)
        pixels = x["pixel_values"].chunk(len(samples))
        for b, sample in enumerate(samples):
            alone = {**inputs(family, [sample]), "pixel_values": pixels[b]}
            mine = together[b][x["attention_mask"][b].bool()]
            assert (mine - logits(model, alone, pruner)[0])[text_of(alone)[0]].abs().max() <= TOLERANCE


@pytest.mark.parametrize("method", METHODS)
def test_full_retention_is_bit_identical(method):
    for family in FIRST_CLASS:
        model, x = build(family), batch(family)
        with torch.no_grad():
            whole = model(**x).logits
        for mode in ("drop", "mask"):
            assert torch.equal(logits(model, x, Pruner(method, Schedule.full(LAYERS), mode=mode)), whole)
