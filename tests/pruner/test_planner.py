"""A planner chooses what its predictor would, remembers what it solved, and a sample's plan is its own."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial

import numpy as np
import pytest
import torch

import tiny
import vispco
from operation_counts import random_joint_predictor
from pruner.test_measured_planner import CHAINS
from pruner.test_measured_planner import invented as invented_profile
from vispco import cost
from vispco.core.small_arrays import all_on_devices
from vispco.cost.host import as_array
from vispco.data import dataset
from vispco.engine.forward import recorded_embeddings
from vispco.evaluation.encoded import encode
from vispco.families import family_of
from vispco.kernels import get
from vispco.pruner import kernel_regression
from vispco.pruner.budget_planner import BudgetPlanner, PredictedShape
from vispco.pruner.configurations import Configurations, text_floor
from vispco.pruner.joint_planner import JointMeasuredPlanner, JointPlanner
from vispco.pruner.kernel_regression import batch_features
from vispco.pruner.measured_planner import MeasuredPlanner
from vispco.pruner.observation import observe, raw_features
from vispco.pruner.predictor import Predictor
from vispco.scorers import Chain


@cache
def loaded():
    model, processor = vispco.load("tiny-qwen")
    return model, processor, shifted(model)


@torch.no_grad()
def seen(samples):
    model, processor, _ = loaded()
    inputs = encode(model, processor, samples).inputs
    with recorded_embeddings(model) as embeddings:
        model(**inputs)
    return family_of(model).layout(model, inputs), embeddings[0]


@pytest.mark.parametrize("small", [kernel_regression.SMALL, 0])
def test_a_batch_is_described_as_its_observation_is(small, monkeypatch):
    monkeypatch.setattr(kernel_regression, "SMALL", small)
    layout, embeddings = seen(dataset("test", limit=1)[:8])
    wanted = raw_features(observe(layout, embeddings))
    torch.testing.assert_close(torch.from_numpy(batch_features(layout, embeddings)), wanted, rtol=1e-4, atol=1e-5)
    with all_on_devices():
        torch.testing.assert_close(batch_features(layout, embeddings), wanted, rtol=1e-4, atol=1e-5)


def exact_of(model):
    return cost.get("exact", model.config)


@cache
def shifted(model):
    """A predictor that has a shape of its own for every sample."""
    with torch.random.fork_rng():
        torch.manual_seed(1)
        predictor = Predictor.for_model(model, get("steps"), Chain.of("fastv")).eval()
        torch.nn.init.normal_(predictor.offset.weight)
    return predictor


PLANNERS = {
    "one chain": lambda m: JointPlanner(random_joint_predictor(m, CHAINS[:1]), 0.5),
    "shapes": lambda m: BudgetPlanner(
        PredictedShape(shifted(m), 0.5), get("steps"), 0.5, exact_of(m), chain=Chain.of("fastv")
    ),
    "time": lambda m: MeasuredPlanner(
        cost.Budget.of("0.5t"), partial(PredictedShape, shifted(m)), get("steps"), exact_of(m).dimensions
    ),
    "joint": lambda m: JointPlanner(random_joint_predictor(m, CHAINS), 0.5),
    "joint, a mean": lambda m: JointPlanner(random_joint_predictor(m, CHAINS), "mean:0.3,max:0.6"),
    "joint, time": lambda m: JointMeasuredPlanner(random_joint_predictor(m, CHAINS), cost.Budget.of("0.5t")),
}


@pytest.mark.parametrize("kind", PLANNERS)
def test_what_is_remembered_is_for_a_size_and_a_shape(kind, tmp_path, monkeypatch):
    """Prompts of one size that are seen to be different: a planner that has planned for one plans the next as a fresh one."""
    model = loaded()[0]
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    invented_profile(model).save()
    layout, embeddings = seen(dataset("test", limit=1)[:1])
    generator = torch.Generator().manual_seed(0)
    planner, plans = PLANNERS[kind](model), []
    for _ in range(6):
        prompt = embeddings + torch.randn(embeddings.shape, generator=generator)
        plans.append(planner(layout, prompt).counts)
        assert torch.equal(plans[-1], PLANNERS[kind](model)(layout, prompt).counts)
    assert len({tuple(plan[0].tolist()) for plan in plans}) > 1, "all prompts have one shape"


def test_one_configuration_at_two_budgets_has_two_plans():
    planner = JointPlanner(random_joint_predictor(loaded()[0], CHAINS), "mean:0.3,max:0.6")
    observation = observe(*seen(dataset("test", limit=1)[:1]))
    choice = planner.choose(observation)
    less, more = (
        planner.plan(observation, replace(choice, budget=np.array([budget]))).counts.sum() for budget in (0.3, 0.6)
    )
    assert less < more


def test_a_configuration_is_of_the_nearest_level_and_affordable():
    """Two levels of two chains; the second chain costs at least 0.5."""
    known = Configurations(
        (Chain.of("divprune"), Chain.of("fastv")),
        torch.tensor([0, 0, 1, 1]),
        torch.zeros(4, 1),
        torch.tensor([0.2, 0.7, 0.2, 0.7], dtype=torch.float64),
    )
    estimate = np.array([[0.3, 0.2, 0.1, 0.15]] * 4, dtype=np.float32)
    floors = np.array([[0.0, 0.0, 0.5]] * 4)
    assert known.best(estimate, np.array([0.2, 0.3, 0.49, 0.7]), floors).tolist() == [0, 0, 1, 3]
    assert known.best(estimate, np.array([0.2, 0.3, 0.49, 0.7]), 0 * floors).tolist() == [2, 2, 3, 3]


@torch.no_grad()
def test_a_calibration_sample_is_estimated_from_the_others():
    predictor = random_joint_predictor(loaded()[0], CHAINS)
    predictor.memory.bandwidth.fill_(1e-4)  # the nearest one speaks
    apart = torch.cdist(predictor.memory.keys, predictor.memory.keys)
    nearest = apart.fill_diagonal_(torch.inf).argmin(-1)
    torch.testing.assert_close(predictor.estimate(), predictor.memory.kl[nearest], rtol=0.05, atol=0.05)


def test_a_mean_is_met_by_samples_of_which_none_exceeds_the_cap():
    predictor = random_joint_predictor(loaded()[0], CHAINS)
    predictor.sizes.copy_(torch.tensor([8, 200, 8, 0]).expand_as(predictor.sizes))
    predictor.memory.kl.mul_((1.0 - predictor.level) ** 3)  # more money buys a lower KL
    spent = {}
    for cap in (0.35, 0.9):
        planner = JointPlanner(predictor, f"mean:0.3,max:{cap}")
        floor = as_array(text_floor(*predictor.sizes.T[:2], planner.cost))
        spent[cap] = planner._curves(as_array(predictor.estimate()), floor).spend(planner.multiplier)
        assert 0.28 <= spent[cap].mean() <= 0.31
    assert spent[0.35].max() <= 0.35 + 1e-9 < spent[0.9].max()


@torch.no_grad()
@pytest.mark.parametrize("side", ["left", "right"])
def test_what_is_seen_of_a_sample_is_the_same_beside_a_longer_one(side):
    """Padding is in no mean: of the words, of the picture, of a predictor."""
    model, name = tiny.build("qwen2_5_vl"), "qwen2_5_vl"
    short, long = tiny.DEFAULT, (tiny.words(9, 5), tiny.picture(4, 6), tiny.words(30, 6))
    both, alone = tiny.inputs(name, [short, long], side=side), tiny.inputs(name, [short])
    views = []
    for x in (both, alone):
        with recorded_embeddings(model) as embeddings:
            model(**x)
        views.append((family_of(model).layout(model, x), embeddings[0]))
    padded, single = (observe(*view) for view in views)
    assert padded.text.shape[1] > single.text.shape[1]
    torch.testing.assert_close(padded.visual[0], single.visual[0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(padded.sizes[0], single.sizes[0])
    torch.testing.assert_close(raw_features(padded)[0], raw_features(single)[0], rtol=1e-4, atol=1e-5)
    for small in (batch_features(*views[0])[0], batch_features(*views[1])[0]):
        torch.testing.assert_close(torch.from_numpy(small), raw_features(single)[0], rtol=1e-4, atol=1e-5)
    predictor, budget = shifted(model), torch.tensor([0.5, 0.5])
    found, wanted = predictor(padded, budget), predictor(single, budget[:1])
    torch.testing.assert_close(found[0], wanted[0], rtol=1e-4, atol=1e-4)


def test_what_was_solved_is_remembered_and_no_sample_depends_on_its_batch():
    model, _, predictor = loaded()
    exact, samples = cost.get("exact", model.config), dataset("test", limit=1)[:6]
    planner = BudgetPlanner(PredictedShape(predictor, 0.5), predictor.kernel, 0.5, exact, chain=Chain.of("fastv"))
    whole = planner(*seen(samples)).counts
    again = planner(*seen(samples[::-1])).counts
    assert torch.equal(again, whole.flip(0))
    fresh = BudgetPlanner(PredictedShape(predictor, 0.5), predictor.kernel, 0.5, exact, chain=Chain.of("fastv"))
    for sample, row in zip(samples[:2], whole, strict=False):
        assert fresh(*seen([sample])).counts[0].tolist() == row.tolist()
    layout, _ = seen(samples)
    workload = cost.Workload(np.array(layout.num_prompt), np.array(layout.num_visual))
    assert bool((exact.fraction_of_counts(whole, workload) <= 0.5).all())
