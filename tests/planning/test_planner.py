"""A planner chooses what its predictor would, remembers what it solved, and a sample's plan is its own."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch

import vispco
from vispco import cost
from vispco.bench.overhead import random_predictor
from vispco.data import dataset
from vispco.engine.forward import recorded_embeddings
from vispco.evaluation.encoded import encode
from vispco.families import family_of
from vispco.planning import memory_reader
from vispco.planning.anchor_chooser import AnchorChooser
from vispco.planning.memory_reader import describe_batch
from vispco.planning.observation import observe
from vispco.planning.planner import BudgetPlanner, predicted_shape
from vispco.planning.similarity import describe
from vispco.small_arrays import all_on_devices


@cache
def loaded():
    model, processor = vispco.load("tiny-qwen")
    return model, processor, random_predictor(model)


@torch.no_grad()
def seen(samples):
    model, processor, _ = loaded()
    inputs = encode(model, processor, samples).inputs
    with recorded_embeddings(model) as embeddings:
        model(**inputs)
    return family_of(model).layout(model, inputs), embeddings[0]


@pytest.mark.parametrize("small", [memory_reader.SMALL, 0])
def test_a_batch_is_described_as_its_observation_is(small, monkeypatch):
    monkeypatch.setattr(memory_reader, "SMALL", small)
    layout, embeddings = seen(dataset("test", limit=1)[:8])
    wanted = describe(observe(layout, embeddings))
    torch.testing.assert_close(torch.from_numpy(describe_batch(layout, embeddings)), wanted, rtol=1e-4, atol=1e-5)
    with all_on_devices():
        torch.testing.assert_close(describe_batch(layout, embeddings), wanted, rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_the_chosen_anchor_is_the_predictors():
    predictor = loaded()[2]
    predictor.budget_range[3:] = torch.tensor([0.4, 0.6])  # some anchors are for some budgets only
    predictor.memory.bandwidth[3:] = 0.3
    layout, embeddings = seen(dataset("test", limit=2)[:12])
    chosen = set()
    for budget in (0.2, 0.5, 0.59, 0.6):
        found = predictor(observe(layout, embeddings), torch.full((layout.batch_size,), budget))
        chooser = AnchorChooser.of(predictor, budget)
        assert chooser(layout, embeddings).tolist() == found.logits.argmax(-1).tolist()
        with all_on_devices():
            assert chooser(layout, embeddings).tolist() == found.logits.argmax(-1).tolist()
        chosen |= set(found.logits.argmax(-1).tolist())
    assert len(chosen) > 1, "all samples chose the same"


def test_a_predictor_with_an_offset_is_asked_itself():
    predictor = random_predictor(loaded()[0])
    assert AnchorChooser.of(predictor, 0.5) is not None
    with torch.no_grad():
        predictor.offset.bias[0] = 0.1
    assert AnchorChooser.of(predictor, 0.5) is None
    assert callable(predicted_shape(predictor, 0.5))


def test_what_was_solved_is_remembered_and_no_sample_depends_on_its_batch():
    model, _, predictor = loaded()
    exact, samples = cost.get("exact", model.config), dataset("test", limit=1)[:6]
    planner = BudgetPlanner(predicted_shape(predictor, 0.5), predictor.kernel, 0.5, exact)
    whole = planner(*seen(samples)).counts
    again = planner(*seen(samples[::-1])).counts
    assert torch.equal(again, whole.flip(0))
    fresh = BudgetPlanner(predicted_shape(predictor, 0.5), predictor.kernel, 0.5, exact)
    for sample, row in zip(samples[:2], whole, strict=False):
        assert fresh(*seen([sample])).counts[0].tolist() == row.tolist()
    layout, _ = seen(samples)
    workload = cost.Workload(np.array(layout.num_prompt), np.array(layout.num_visual))
    assert bool((exact.fraction_of_counts(whole, workload) <= 0.5).all())
