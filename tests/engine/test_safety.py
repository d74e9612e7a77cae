"""The check of a model's first prefill: what attention gives must follow from what was read of it."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import pytest
import torch
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from tiny import FIRST_CLASS, build, inputs, picture, words
from vispco import Pruner, Schedule
from vispco.core.errors import UnsupportedModelError
from vispco.engine import safety

SINGLE = Schedule((1.0, 1.0, 0.5, 0.5))


@pytest.fixture(autouse=True)
def _no_model_is_trusted_yet(monkeypatch):
    monkeypatch.setattr(safety, "_TRUSTED", WeakKeyDictionary())


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("family", FIRST_CLASS)
@torch.no_grad()
def test_padding_that_sees_no_key_is_no_reason_to_refuse_a_model(family, attention, side):
    """Behind a short prompt, the last padding is further away than a sliding window: every key is closed to it."""
    model = build(family, attention)
    batch = [(words(1, 1), picture(4, 4), words(5, 9)), (words(4, 9),)]
    with Pruner("fastv", SINGLE, mode="mask")(model):
        assert model(**inputs(family, batch, side=side)).logits.isfinite().all()
    assert len(safety._TRUSTED) == 1


@torch.no_grad()
def test_a_model_that_adds_something_to_its_scores_is_refused(monkeypatch):
    model = build("qwen2_5_vl", "sdpa")
    plain = ALL_ATTENTION_FUNCTIONS["sdpa"]

    def biased(module, query, *args, **options):
        return plain(module, query * 1.5, *args, **options)

    monkeypatch.setitem(ALL_ATTENTION_FUNCTIONS._global_mapping, "sdpa", biased)
    x = inputs("qwen2_5_vl", [(words(1, 1), picture(3, 3), words(4, 9))])
    with Pruner("fastv", SINGLE)(model), pytest.raises(UnsupportedModelError, match="does not follow from its queries"):
        model(**x)
