"""Budgets of time and of bytes, from a saved search to a pruned prefill."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import vispco
from operation_counts import random_joint_predictor
from vispco import Pruner
from vispco.core.errors import InvalidInputError
from vispco.core.layout import TokenLayout
from vispco.cost import BudgetWarning, Dimensions, KvBytes, TimeProfile, Workload
from vispco.data import dataset
from vispco.evaluation.encoded import encode
from vispco.kernels import get
from vispco.pruner.budget_planner import static_shape
from vispco.pruner.joint_planner import JointMeasuredPlanner, JointPlanner
from vispco.pruner.measured_planner import MeasuredPlanner, device_name
from vispco.timing.profiling import profile_model

CPU = torch.device("cpu")
SIZE = Dimensions(
    num_layers=6, hidden=40, heads=4, kv_heads=2, head_dim=10, ffn=72, gated=True,
    windows=(None,) * 6, vocab=9, dtype_bytes=4,
)  # fmt: skip


@pytest.fixture(scope="module")
def model():
    loaded, processor = vispco.load("tiny-llava")
    return loaded, processor, encode(loaded, processor, dataset("test", limit=1)[:4])


def invented(model):
    """A profile in which a layer takes a microsecond for each token of a sample."""
    return invented_for(Dimensions.from_config(model.config))


def invented_for(dimensions):
    return TimeProfile(
        dimensions=dimensions, device=device_name(CPU), dtype="float32", batches=(1, 8),
        tokens=(1, 1000), layer_ms=((0.001, 1.0), (0.008, 8.0)), fixed_ms=(0.1, 0.1), drop_ms=(0.01, 0.01),
    )  # fmt: skip


def planner(model, budget):
    return planner_for(Dimensions.from_config(model.config), budget)


def planner_for(dimensions, budget):
    kernel = get("single")
    params = kernel.initial(dimensions.num_layers, layer=2, r=0.5)
    return MeasuredPlanner(vispco.cost.Budget.of(budget), lambda _: static_shape(params), kernel, dimensions)


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


def layout_of(sizes):
    """Visual tokens, then text, then padding: sizes of (text, visual)."""
    length = max(map(sum, sizes))
    places = torch.arange(length)
    text, visual = torch.tensor(sizes).T[..., None]
    return TokenLayout.build(places < visual, places < visual + text)


def time_of(counts, sizes, cost):
    """What a layer takes follows from its longest row, and a drop of any sample is a drop of the batch."""
    text, visual = torch.tensor(sizes).T
    rows = (counts + text[:, None]).amax(0)
    before = torch.cat([visual[:, None], counts[:, :-1]], dim=1)
    drops = int((counts < before).any(dim=0).sum())
    return float(cost.price(rows[None], Workload([0], [0]))[0]) + drops * cost.drop_ms


samples = st.lists(st.tuples(st.integers(1, 80), st.integers(0, 150)), min_size=1, max_size=4)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(samples.filter(lambda sizes: any(visual for _, visual in sizes)), st.floats(0.6, 1.6), st.booleans())
def test_no_batch_takes_longer_than_asked_unless_a_warning_names_its_floor(tmp_path, sizes, times, relative):
    profile = replace(invented_for(SIZE), drop_ms=(0.05, 0.05))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path))
        profile.save()
        cost, L = profile.cost(len(sizes)), profile.dimensions.num_layers
        full = time_of(torch.tensor(sizes)[:, 1:].expand(-1, L), sizes, cost)
        longest, text = max(map(sum, sizes)), max(text for text, _ in sizes)
        least = torch.tensor([longest] + [text] * (L - 1))  # the first layer sees every token, the others text
        floor = min(full, float(cost.price(least, Workload(0, 0))) + cost.drop_ms)
        limit = times * floor
        budget = vispco.cost.Budget("time", min(1.0, limit / full)) if relative else vispco.cost.Budget("ms", limit)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", BudgetWarning)
            plan = planner_for(SIZE, budget)(layout_of(sizes), torch.zeros(len(sizes), longest, 1))
    spent = time_of(plan.counts, sizes, cost)
    margin = (1 - cost.margin) if limit < full * (1 - 1e-12) else 1.0  # a whole budget needs none
    if caught:
        assert spent == pytest.approx(floor), "under the floor, the plan is the floor's"
        assert limit < floor / margin * (1 + 1e-9)
        found = re.search(r"floor of ([0-9.e-]+)( ms|%)", str(caught[0].message))
        stated = float(found[1]) * (full / 100 if relative else 1.0)
        assert floor * (1 - 1e-12) <= stated <= floor / (1 - cost.margin) * 1.002
    else:
        assert spent <= min(limit, full) * margin * (1 + 1e-9)


def test_a_row_of_text_bounds_the_batch_beside_the_longest_prompt(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    invented_for(SIZE).save()
    cost = invented_for(SIZE).cost(3)
    sizes = ((10, 190), (150, 4), (30, 100))
    plan = planner_for(SIZE, "0.9t")(layout_of(sizes), torch.zeros(3, 200, 1))
    rows = int((plan.counts[:, -1] + torch.tensor(sizes)[:, 0]).max())
    assert 154 <= rows < 200, "rows that the long text has in any case are used"
    assert plan.counts[:, -1].tolist() == [min(visual, rows - text) for text, visual in sizes]
    unpruned = torch.tensor(sizes)[:, 1:].expand(-1, 6)
    assert time_of(plan.counts, sizes, cost) <= 0.9 * time_of(unpruned, sizes, cost)


def test_the_floor_of_milliseconds_is_named_in_milliseconds_and_that_budget_is_met(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    invented_for(SIZE).save()
    for asked, unit in (("0.001ms", "ms"), ("0.01t", "% of the time"), ("10B", "kB")):
        with pytest.warns(BudgetWarning, match=f"floor of [0-9.]+ ?{unit}") as caught:
            planner_for(SIZE, asked)(layout_of([(20, 80)]), torch.zeros(1, 100, 1))
        lowest = re.search(r"floor of ([0-9.]+ ?(?:ms|%|kB))", str(caught[0].message))[1].replace(" ", "")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            planner_for(SIZE, lowest.replace("%", "%t"))(layout_of([(20, 80)]), torch.zeros(1, 100, 1))


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


@torch.no_grad()
def test_a_joint_search_runs_the_chain_that_it_solved_for(model, monkeypatch):
    """Chains of two kinds, which share no batch, one better where little stays and one where much does."""
    loaded, _, encoded = model
    predictor = random_joint_predictor(loaded, ["fastv", "fitprune"])
    predictor.sizes.copy_(torch.tensor([8, 200, 8, 0]).expand_as(predictor.sizes))
    mid, low = predictor.chain == 1, predictor.level < 0.3
    predictor.memory.kl[:, mid ^ low] = 0.1
    predictor.memory.kl[:, ~(mid ^ low)] = 4.0
    assert JointPlanner(predictor, 0.2).used != JointPlanner(predictor, 0.5).used
    solved, solve = set(), JointPlanner.solve
    monkeypatch.setattr(
        JointPlanner,
        "solve",
        lambda self, sizes, anchor, *a: (solved.update(anchor.tolist()), solve(self, sizes, anchor, *a))[1],
    )
    workload = Workload(encoded.num_text, encoded.num_visual, "entry", 0)
    limit = 0.25 * float(KvBytes(Dimensions.from_config(loaded.config)).full(workload).max())
    planner = JointMeasuredPlanner(predictor, vispco.cost.Budget.of(f"{limit}B"))
    with Pruner(planner.chain, planner)(loaded):
        loaded(**encoded.inputs)
    assert {predictor.chains[int(predictor.chain[place])].name for place in solved} == {planner.chain.name}


def test_a_joint_search_without_a_profile_says_how_to_make_one(model, tmp_path, monkeypatch):
    loaded, _, encoded = model
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    planner = JointMeasuredPlanner(random_joint_predictor(loaded, CHAINS), vispco.cost.Budget.of("40ms"))
    with pytest.raises(InvalidInputError, match="vispco profile"), Pruner(planner.chain, planner)(loaded):
        loaded(**encoded.inputs)
