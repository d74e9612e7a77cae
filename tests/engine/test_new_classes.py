"""The laws on the classes that read pictures in ways of their own: injections, hybrid layers, shared keys, latent attention.

`tests/check` runs all laws with `fastv` on these and others. Here every law is a test of its own, with scorers of other
kinds and with tokens divided over the pictures of a prompt.
"""

from __future__ import annotations

from functools import cache

import pytest
import torch

from vispco import Pruner, Schedule
from vispco.check import laws
from vispco.check.prompts import TWO, prompter_for
from vispco.check.twin import quiet, twin_of
from vispco.core.errors import UnsupportedModelError
from vispco.engine.layer_map import LayerMap
from vispco.families import family_of

NAMED = ("qwen3_vl", "qwen3_5", "gemma4", "cohere2_vision", "lfm2_vl", "llama4", "kimi_k25")
MIXING = ("qwen3_5", "lfm2_vl")  # some of their layers are no attention
SCORERS = ("equal:sparsevlm", "size:random", "v2drop")  # text rows, nothing at all, states of two layers


@cache
def subject(kind, scorer):
    with quiet():
        model = twin_of(kind)
        first = max(LayerMap.of(family_of(model), model).last_mixing + 1, 1)
        return laws.Subject(model, prompter_for(model), scorer, first)


@pytest.mark.parametrize("scorer", SCORERS)
@pytest.mark.parametrize("kind", NAMED)
def test_full_retention_is_bit_identical(kind, scorer):
    laws.full_retention_is_bit_identical(subject(kind, scorer))


@pytest.mark.parametrize("scorer", SCORERS)
@pytest.mark.parametrize("kind", NAMED)
def test_masking_equals_dropping(kind, scorer):
    laws.masking_equals_dropping(subject(kind, scorer))


@pytest.mark.parametrize("kind", MIXING)
def test_masking_before_a_layer_without_attention_is_refused(kind):
    """There dropping says what happens: neighbours that were none meet, which no mask can express."""
    found = subject(kind, "random")
    pruner = Pruner("random", Schedule((0.5,) * found.num_layers), mode="mask")
    with pruner(found.model), pytest.raises(UnsupportedModelError, match="Masking equals dropping only"):
        found.model(**found.prompter([TWO]), use_cache=False)
    laws.dropped_tokens_are_gone_for_layers_without_attention(found)


@pytest.mark.parametrize("kind", NAMED)
def test_kept_tokens_are_those_of_eager_attention(kind):
    laws.kept_tokens_are_those_of_eager_attention(subject(kind, "fastv"))


@pytest.mark.parametrize("scorer", SCORERS)
@pytest.mark.parametrize("kind", NAMED)
def test_a_sample_in_a_padded_batch_equals_it_alone(kind, scorer):
    laws.a_sample_in_a_batch_equals_it_alone(subject(kind, scorer))


@pytest.mark.parametrize("scorer", SCORERS)
@pytest.mark.parametrize("kind", NAMED)
def test_caches_hold_what_the_schedule_says_and_generation_follows(kind, scorer):
    laws.caches_hold_what_the_schedule_says(subject(kind, scorer))
    laws.generated_tokens_are_those_of_one_pass(subject(kind, scorer))


@pytest.mark.parametrize("kind", NAMED)
def test_pictures_are_told_apart(kind):
    found = subject(kind, "equal:random")
    inputs = found.prompter([TWO])
    pruner = found.pruner(record=True)
    with torch.no_grad(), pruner(found.model):
        found.model(**inputs, use_cache=False)
        kept = pruner.survivors(found.model)[-1][0]
    halves = kept.view(2, -1).sum(-1)
    assert halves.sum() < len(kept)
    assert int(halves.diff().abs()) <= 1
