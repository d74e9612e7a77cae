"""What scorers read of the vision tower equals what its blocks compute, patch by patch, wherever pictures are encoded."""

from __future__ import annotations

import pytest
import torch

from methods.test_pre_llm import SAMPLES, alone, sizes_of
from methods.tower import DEPTH, WHOLE, Tower, deep
from tiny import FIRST_CLASS, LAYERS, inputs
from vispco import Pruner, Schedule
from vispco.core.errors import UnsupportedModelError
from vispco.engine.vision import encode_pictures
from vispco.scorers import Chain, Scorer, VisionNeeds

NEEDS = VisionNeeds(features=True, attention=(-1, 0), received=(0.5,), keys=(-1, 1))


class Reader(Scorer):
    """Keeps the first tokens, and what it was shown."""

    name = "reader"
    needs_attention = False

    def __init__(self, needs=NEEDS):
        self._needs, self._shown = needs, None

    @property
    def needs_vision(self):
        return self._needs

    def score(self, context):
        self._shown = context.vision
        return torch.zeros(context.live.shape)


def shown(name, x, needs=NEEDS):
    reader = Reader(needs)
    with torch.no_grad(), Pruner(reader, Schedule((0.5,) * LAYERS))(deep(name)):
        deep(name)(**x)
    return reader._shown


@pytest.mark.parametrize("name", FIRST_CLASS)
def test_a_record_equals_the_tower_read_patch_by_patch(name):
    samples = ["one picture", "two pictures"]
    record = shown(name, inputs(name, [SAMPLES[s] for s in samples]))
    last = DEPTH - 1 - (name == "llava")  # LLaVA's projector does not read the last block
    middle = WHOLE[0] if name == "qwen2_5_vl" else int(0.5 * (last + 1))
    for b, sample in enumerate(samples):
        tower = Tower(name, alone(name, sample), sizes_of(name, SAMPLES[sample]))
        for got, values in (
            (record.features, tower.features),
            (record.attention[-1], tower.attention(last)),
            (record.attention[0], tower.attention(0)),
            (record.received[0.5], tower.received(middle)),
            (record.keys[-1], tower.keys(last)),
            (record.keys[1], tower.keys(1)),
        ):
            wanted = torch.tensor(values, dtype=torch.double)
            torch.testing.assert_close(got[b][: len(wanted)].double(), wanted, atol=1e-5, rtol=1e-4)
            assert not got[b][len(wanted) :].any()


@pytest.mark.parametrize("name", FIRST_CLASS)
def test_pictures_encoded_beforehand_bring_their_record(name):
    x = inputs(name, [SAMPLES["one picture"], SAMPLES["two pictures"]])
    with torch.no_grad():
        encoded = encode_pictures(deep(name), x, NEEDS)["image"]
    words = {key: value for key, value in x.items() if not key.startswith("pixel")}
    first, second = shown(name, x), shown(name, {**words, "mm_encoder_outputs": {"image": encoded}})
    torch.testing.assert_close(first.features, second.features)
    for kind in ("attention", "received", "keys"):
        for block, values in getattr(first, kind).items():
            torch.testing.assert_close(values, getattr(second, kind)[block])


@pytest.mark.parametrize("block", [DEPTH, -9, 1.5])
def test_a_block_that_the_tower_does_not_have_is_refused(block):
    with pytest.raises(UnsupportedModelError, match="vision tower, which has"):
        shown("gemma3", inputs("gemma3", [SAMPLES["one picture"]]), VisionNeeds(attention=(block,)))


def test_a_chain_reads_what_any_of_its_scorers_reads():
    chain = Chain.of("hiprune(block=2)+vispruner+scope")
    assert chain.needs_vision == VisionNeeds(features=True, attention=(-1,), received=(2, -1))
