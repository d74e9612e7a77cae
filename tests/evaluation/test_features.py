import pytest
import torch

import tiny
from vispco import Pruner, Schedule
from vispco.core.errors import InvalidInputError
from vispco.evaluation import FeatureStore, answer_logits, encode
from vispco.evaluation.features import _refusal
from vispco.families import family_of

from .conftest import layers_of


@torch.no_grad()
def test_logits_are_bit_identical_with_and_without_the_store(pair, samples):
    model, processor = pair
    store = FeatureStore(model, processor)
    plain = encode(model, processor, samples, answers=True)
    for _ in range(2):  # computed, then kept
        stored = store.encode(samples, answers=True)
        assert "pixel_values" not in stored.inputs
        assert torch.equal(answer_logits(model, plain), answer_logits(model, stored))
    with Pruner("fastv", Schedule.single(2, 0.5, layers_of(model)))(model):
        assert torch.equal(answer_logits(model, plain), answer_logits(model, stored))


def test_generation_is_the_same_with_and_without_the_store(pair, samples):
    model, processor = pair
    plain, stored = encode(model, processor, samples), FeatureStore(model, processor).encode(samples)
    with Pruner("sparsevlm", Schedule.single(3, 0.4, layers_of(model)))(model):
        told = [model.generate(**batch.inputs, max_new_tokens=3, do_sample=False) for batch in (plain, stored)]
    assert torch.equal(*told)


def test_the_vision_tower_runs_once_for_each_picture(pair, samples, vision_calls):
    model, processor = pair
    store = FeatureStore(model, processor)
    store.encode(samples[:4])
    store.encode(samples)
    assert len(vision_calls) == 2  # the second time for the new pictures
    store.encode(samples[::-1], answers=True)
    store.encode(samples[2:5])
    assert len(vision_calls) == 2


@torch.no_grad()
def test_features_come_back_from_disk(pair, samples, vision_calls, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    model, processor = pair
    store = FeatureStore(model, processor, memory=0)
    first = answer_logits(model, store.encode(samples, answers=True))
    assert store.cache.on_disk == len(samples)
    assert store.cache.held == 0
    assert torch.equal(first, answer_logits(model, store.encode(samples, answers=True)))
    assert len(vision_calls) == 1
    assert list(tmp_path.rglob("*.safetensors"))
    del store
    assert not list(tmp_path.rglob("*.safetensors"))


@torch.no_grad()
def test_what_scorers_read_of_the_tower_is_kept_with_the_features(pair, samples, vision_calls):
    model, processor = pair
    pruner = Pruner("visionzip+hiprune@2+scope@3", Schedule((0.6, 0.6, 0.4, *[0.2] * (layers_of(model) - 3))))
    store = FeatureStore(model, processor, memory=0)
    store.encode(samples[:2])
    store.require(pruner.chain.needs_vision)
    plain, runs = encode(model, processor, samples), []
    with pruner(model):
        runs.append(model.generate(**plain.inputs, max_new_tokens=3, do_sample=False))
    calls = len(vision_calls)
    for order in (samples, samples):  # encoded again with the record, then kept
        batch = store.encode(order)
        with pruner(model):
            runs.append(model.generate(**batch.inputs, max_new_tokens=3, do_sample=False))
    assert len(vision_calls) == calls + 1
    assert torch.equal(runs[0], runs[1])
    assert torch.equal(runs[0], runs[2])


def test_a_picture_that_is_gone_cannot_be_encoded_again(pair, samples):
    model, processor = pair
    store = FeatureStore(model, processor)
    store.encode(samples)
    store.require(Pruner("scope", Schedule.full(layers_of(model))).chain.needs_vision)
    with pytest.raises(InvalidInputError, match="before the first batch"):
        store.encode([sample.with_images(()) for sample in samples])


def test_features_can_stand_in_a_graph(pair, samples):
    model, processor = pair
    batch = FeatureStore(model, processor).encode(samples[:2], answers=True)
    answer_logits(model, batch).logsumexp(-1).sum().backward()
    assert model.lm_head.weight.grad is not None
    model.zero_grad(set_to_none=True)


@pytest.mark.parametrize("name", tiny.BUILDERS)
def test_every_family_takes_features_beforehand(name):
    model = tiny.build(name)
    assert _refusal(model, family_of(model).base(model)) is None


def test_a_model_that_takes_no_features_gets_its_pixels(pair, samples, monkeypatch):
    model, processor = pair
    monkeypatch.setattr("vispco.evaluation.features._refusal", lambda *_: "It cannot.")
    store = FeatureStore(model, processor)
    plain, stored = encode(model, processor, samples), store.encode(samples)
    assert store.note == "It cannot."
    assert all(torch.equal(plain.inputs[name], stored.inputs[name]) for name in plain.inputs)
