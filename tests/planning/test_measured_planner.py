"""Budgets of time and of bytes, from a saved search to a pruned prefill."""

from __future__ import annotations

import pytest
import torch

import vispco
from vispco import Pruner
from vispco.bench.overhead import random_joint_predictor
from vispco.bench.profiling import profile_model
from vispco.cost import Dimensions, KvBytes, TimeProfile, Workload
from vispco.data import dataset
from vispco.errors import InvalidInputError
from vispco.evaluation.encoded import encode
from vispco.kernels import get
from vispco.planning.joint_measured import JointMeasuredPlanner
from vispco.planning.measured_planner import MeasuredPlanner, Priced, device_name
from vispco.planning.planner import static_shape

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def model():
    loaded, processor = vispco.load("tiny-llava")
    return loaded, processor, encode(loaded, processor, dataset("test", limit=1)[:4])


def invented(model):
    """A profile in which a layer takes a microsecond for each token of a sample."""
    return TimeProfile(
        dimensions=Dimensions.from_config(model.config), device=device_name(CPU), dtype="float32", batches=(1, 8),
        tokens=(1, 1000), layer_ms=((0.001, 1.0), (0.008, 8.0)), fixed_ms=(0.1, 0.1), drop_ms=(0.01, 0.01),
    )  # fmt: skip


def planner(model, budget):
    kernel = get("single")
    priced = Priced(kernel, Dimensions.from_config(model.config))
    params = kernel.initial(priced.dimensions.num_layers, layer=2, r=0.5)
    return MeasuredPlanner(vispco.cost.Budget.of(budget), lambda _: static_shape(params), priced)


@torch.no_grad()
def test_a_batch_takes_at_most_its_milliseconds(model, tmp_path, monkeypatch):
    loaded, _, encoded = model
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    invented(loaded).save()
    cost = invented(loaded).cost(4)
    lengths = torch.tensor(encoded.num_text) + torch.tensor(encoded.num_visual)
    longest = int(lengths.argmax())
    workload = Workload(encoded.num_text[longest], encoded.num_visual[longest])
    full = float(cost.full(workload))
    for budget, limit in (("0.6t", 0.6 * full), (f"{0.5 * full}ms", 0.5 * full), (f"{2 * full}ms", full)):
        pruner = Pruner("fastv", planner(loaded, budget))
        with pruner(loaded):
            loaded(**encoded.inputs)
            counts = pruner.token_counts(loaded)
        tokens = (counts + torch.tensor(encoded.num_text)[:, None]).amax(0)  # what layers process, padding included
        spent = float(cost.bill(tokens - encoded.num_text[longest], workload))
        assert spent <= limit + 1e-9
        assert spent >= 0.95 * limit, "the budget is used"


@torch.no_grad()
def test_every_sample_stays_within_its_bytes(model):
    loaded, _, encoded = model
    kv = KvBytes(Dimensions.from_config(loaded.config))
    workload = Workload(encoded.num_text, encoded.num_visual)
    limit = 0.6 * float(kv.full(workload).double().mean())
    pruner = Pruner("fastv", planner(loaded, f"{limit}B"))
    with pruner(loaded):
        loaded(**encoded.inputs)
        counts = pruner.token_counts(loaded)
    assert bool((kv.price(counts, workload) <= limit).all())
    assert bool((kv.price(counts, workload) >= 0.9 * limit).all())


@torch.no_grad()
def test_without_a_profile_it_is_said_how_to_make_one(model, tmp_path, monkeypatch):
    loaded, _, encoded = model
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with (
        Pruner("fastv", planner(loaded, "40ms"))(loaded),
        pytest.raises(InvalidInputError, match="vispco profile MODEL"),
    ):
        loaded(**encoded.inputs)


def test_a_profile_is_measured(model):
    loaded, processor, _ = model
    found = profile_model(loaded, processor, dataset("test", limit=1)[:2], batches=(1, 2), tokens=(8, 64), rounds=1)
    assert found.batches == (1, 2)
    assert all(0 < row[0] <= row[1] for row in found.layer_ms)
    assert min(*found.fixed_ms, *found.drop_ms) >= 0
    assert found.cost(1).num_layers == len(loaded.model.language_model.layers)


CHAINS = ("fastv", "divprune+fastv", "cdpruner+sparsevlm")


@torch.no_grad()
@pytest.mark.parametrize("budget", ["0.5t", "0.8t", "ms"])
def test_a_joint_search_plans_a_batch_within_its_time(model, budget, tmp_path, monkeypatch):
    loaded, _, encoded = model
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    invented(loaded).save()
    cost = invented(loaded).cost(4)
    text, visual = torch.tensor(encoded.num_text), torch.tensor(encoded.num_visual)
    longest = int((text + visual).argmax())
    workload = Workload(encoded.num_text[longest], encoded.num_visual[longest])
    full = float(cost.full(workload))
    limit = 0.4 * full if budget == "ms" else float(budget[:-1]) * full
    planner = JointMeasuredPlanner(
        random_joint_predictor(loaded, CHAINS), vispco.cost.Budget.of(f"{limit}ms" if budget == "ms" else budget)
    )
    pruner = Pruner(planner.chain, planner)
    with pruner(loaded):
        loaded(**encoded.inputs)
        counts = pruner.token_counts(loaded)
    tokens = (counts + text[:, None]).amax(0)
    spent = float(cost.bill(tokens - encoded.num_text[longest], workload))
    assert 0.8 * limit <= spent <= limit + 1e-9


@torch.no_grad()
def test_a_joint_search_plans_every_sample_within_its_bytes(model):
    loaded, _, encoded = model
    cost = KvBytes(Dimensions.from_config(loaded.config))
    workload = Workload(encoded.num_text, encoded.num_visual, "entry", 0)
    limit = 0.5 * float(cost.full(workload).max())
    planner = JointMeasuredPlanner(random_joint_predictor(loaded, CHAINS), vispco.cost.Budget.of(f"{limit}B"))
    pruner = Pruner(planner.chain, planner)
    with pruner(loaded):
        loaded(**encoded.inputs)
        counts = pruner.token_counts(loaded)
    spent = cost.price(counts, workload).double()
    assert bool((spent <= limit).all())
    assert float(spent.max()) >= 0.9 * limit


def test_a_joint_search_without_a_profile_says_how_to_make_one(model, tmp_path, monkeypatch):
    loaded, _, encoded = model
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    planner = JointMeasuredPlanner(random_joint_predictor(loaded, CHAINS), vispco.cost.Budget.of("40ms"))
    with pytest.raises(InvalidInputError, match="vispco profile"), Pruner(planner.chain, planner)(loaded):
        loaded(**encoded.inputs)
