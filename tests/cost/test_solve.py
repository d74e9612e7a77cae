"""From a budget to whole tokens: never above it, within one token at the layers that drop, for every kernel and length."""

import math
import warnings
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cost.formulas import plateaus
from vispco import cost, kernels
from vispco.core.errors import InvalidInputError
from vispco.cost import BudgetWarning, Dimensions, MovableCurves, Workload
from vispco.cost.formulas import host_limit
from vispco.cost.host import HostPricing, largest_count
from vispco.cost.solve import largest_fitting

L = 7
LAW = settings(max_examples=40, deadline=None)
SMALL = Dimensions(
    num_layers=L,
    hidden=24,
    heads=4,
    kv_heads=2,
    head_dim=8,
    ffn=56,
    gated=True,
    windows=(None,) * L,
    vocab=9,
    dtype_bytes=2,
)
models = st.sampled_from([cost.get("exact", SMALL), cost.get("paper", SMALL)])
sites = st.sampled_from(["entry", "mid"])
curves = st.lists(st.floats(0, 1), min_size=L, max_size=L).map(lambda r: sorted(r, reverse=True))
samples = st.lists(st.tuples(st.floats(0, 1), st.integers(1, 40), st.integers(0, 120)), min_size=1, max_size=4)


def columns(rows):
    budget, text, visual = zip(*rows, strict=True)
    return torch.tensor(budget, dtype=torch.float64), torch.tensor(text), torch.tensor(visual)


def first(workload):
    return replace(workload, num_text=workload.num_text[:1], num_visual=workload.num_visual[:1])


def quietly(function, *arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BudgetWarning)
        return function(*arguments, **options)


def assert_on_budget(counts, budget, workload, model):
    """The law of `snap`, checked by trying to add one token to every plateau of every sample."""
    text, visual = workload.num_text, workload.num_visual
    attention, pairs, ffn = model.layer_flops
    linear = [attention + ffn * networks for networks in workload.networks(model.num_layers)]
    for b, row in enumerate(counts.tolist()):
        full, floor = int(model.full(workload)[b]), int(model.floor(workload)[b])
        limit = max(float(budget[b]), floor / full)

        def spent(kept, b=b, full=full):
            N = [int(text[b]) + c for c in kept]
            return sum(n * (per_token + pairs * n) for n, per_token in zip(N, linear, strict=True)) / full

        assert all(0 <= c <= before for before, c in zip([int(visual[b]), *row], row, strict=False))
        assert row[: workload.earliest_layer] == [int(visual[b])] * workload.earliest_layer
        assert spent(row) <= limit
        for i, end in plateaus(row):
            if row[i] < (row[i - 1] if i else int(visual[b])):
                more = [*row[:i], *(c + 1 for c in row[i:end]), *row[end:]]
                assert spent(more) > limit, f"layers {i} to {end - 1} of {row} had room for one more"


@LAW
@given(st.data(), samples, models, sites, st.integers(0, 2))
def test_any_curve_snaps_to_its_budget(data, rows, model, site, earliest_layer):
    budget, text, visual = columns(rows)
    workload = Workload(text, visual, site, earliest_layer)
    retention = torch.tensor(data.draw(st.lists(curves, min_size=len(rows), max_size=len(rows))), dtype=torch.float64)
    counts = quietly(cost.snap, retention, budget, workload, model)
    assert_on_budget(counts, budget, workload, model)


@pytest.mark.parametrize("name", sorted(kernels.KERNELS))
@settings(max_examples=10, deadline=None)
@given(st.data(), samples, models, sites, st.integers(0, 2))
def test_every_kernel_meets_every_budget(name, data, rows, model, site, earliest_layer):
    kernel = kernels.get(name, earliest_layer=earliest_layer, r_min=data.draw(st.sampled_from([0.0, 0.1])))
    budget, text, visual = columns(rows)
    workload = Workload(text, visual, site, earliest_layer=0)
    count = kernel.num_parameters(L)
    numbers = st.lists(st.floats(-5, 5), min_size=count, max_size=count)
    params = torch.tensor(data.draw(st.lists(numbers, min_size=len(rows), max_size=len(rows))), dtype=torch.float64)
    schedule = quietly(cost.schedule_for_budget, kernel, params, budget, workload, model)
    assert_on_budget(schedule.counts(visual.tolist()), budget, workload.pinned(earliest_layer), model)
    alone = quietly(cost.counts_for_budget, kernel, params[:1], budget[:1], first(workload), model)
    assert torch.equal(alone, schedule.counts(visual.tolist())[:1]), "a sample's schedule depends on its batch"


@pytest.mark.parametrize("name", sorted(kernels.KERNELS))
def test_where_the_kernel_can_reach_the_budget_it_alone_is_moved(name):
    kernel, model = kernels.get(name), cost.get("exact", SMALL)
    params = kernel.initial(L).expand(3, -1)
    workload = Workload(torch.tensor([5, 9, 30]), torch.tensor([400, 100, 200]))
    ends = params.repeat(2, 1, 1)
    ends[0, :, kernel.budget_parameter], ends[1, :, kernel.budget_parameter] = -30.0, 30.0
    budget = model.fraction(kernel(ends, L), workload).mean(dim=0)
    solved = cost.solve_kernel(kernel, params, budget, workload, model)
    others = [p for p in range(params.shape[-1]) if p != kernel.budget_parameter]
    assert torch.equal(solved[:, others], params[:, others])
    spent = model.fraction(kernel(solved, L), workload)
    assert bool((spent <= budget * (1 + 1e-15)).all())
    torch.testing.assert_close(spent, budget, rtol=0, atol=1e-9)
    met = cost.meet(kernel(solved, L), budget, workload, model)
    torch.testing.assert_close(met, kernel(solved, L), rtol=0, atol=1e-6)


@LAW
@given(st.data(), samples, models, sites, st.integers(0, 2))
def test_any_curve_meets_its_budget_in_torch_as_on_the_host(data, rows, model, site, earliest_layer):
    budget, text, visual = columns(rows)
    workload = Workload(text, visual.clamp_min(1), site, earliest_layer)
    budget = torch.maximum(budget, model.lowest_fraction(workload) + 1e-6).clamp_max(1.0)
    drawn = data.draw(st.lists(curves, min_size=len(rows), max_size=len(rows)))
    retention = torch.tensor(drawn, dtype=torch.float64)
    met = cost.meet(retention, budget, workload, model)
    assert bool((met.diff(dim=-1) <= 0).all())
    torch.testing.assert_close(model.fraction(met, workload), budget, rtol=0, atol=1e-6)
    host = HostPricing(model, workload).meet(retention.numpy(), budget.numpy())
    torch.testing.assert_close(torch.from_numpy(host), met, rtol=0, atol=1e-6)


@dataclass(frozen=True, kw_only=True)
class Bending(kernels.Kernel):
    """A kernel whose curves do not move along straight lines: 1, r, r^2, r^3 ..."""

    name: ClassVar[str] = "bending"

    def parameter_names(self, num_layers):
        return ("r",)

    def initial(self, num_layers):
        return torch.zeros(1, dtype=torch.float64)

    def describe(self, params, num_layers):
        return {"r": float(params[0].sigmoid())}

    def _curve(self, params, depth, gamma):
        return self._retention(params[..., :1]) ** depth


def test_a_kernel_that_bends_is_solved_step_by_step():
    kernel, model = Bending(earliest_layer=1), cost.get("exact", SMALL)
    workload, budget = Workload([5, 9], [4000, 900]), torch.tensor([0.4, 0.6], dtype=torch.float64)
    params = kernel.initial(L).expand(2, -1)
    assert not MovableCurves(kernel, params, L).straight
    assert MovableCurves(kernels.get("linear"), kernels.get("linear").initial(L).expand(2, -1), L).straight
    assert_on_budget(cost.counts_for_budget(kernel, params, budget, workload, model), budget, workload, model)
    counts = cost.counts_for_budget(kernel, params, budget, workload, model, fill=False)
    curve = kernel(cost.solve_kernel(kernel, params, budget, workload, model), L)
    torch.testing.assert_close(counts.double() / workload.num_visual[:, None], curve, rtol=0, atol=3 / 900)


def test_beyond_the_kernel_the_curve_is_cut_or_lifted():
    model, workload = cost.get("exact", SMALL), Workload([4, 4], [200, 200])
    curve = torch.tensor(
        [[1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0], [1.0, 0.9, 0.7, 0.5, 0.3, 0.2, 0.1]], dtype=torch.float64
    )
    met = cost.meet(curve, torch.tensor([0.3, 0.9], dtype=torch.float64), workload, model)
    cut = float(met[0, 1])
    assert 0 < cut < 1
    assert met[0].tolist() == [1.0, cut, cut, cut, 0.0, 0.0, 0.0]
    lift = float(met[1, -1])
    assert met[1].tolist() == [1.0, *(max(r, lift) for r in curve[1, 1:].tolist())]


def test_filling_uses_the_layers_that_drop_anyway_and_can_be_left_out():
    model, kernel = cost.get("exact", SMALL), kernels.get("steps", steps=2)
    params = kernel.initial(L, positions=(1.5, 4.5), heights=(0.6, 0.3))
    options = {"budget": 0.613, "workload": Workload(5, 97), "cost": model, "gamma": math.inf}
    filled = cost.schedule_for_budget(kernel, params, **options).counts([97])[0].tolist()
    whole = cost.schedule_for_budget(kernel, params, **options, fill=False).counts([97])[0].tolist()
    assert [start for start, _ in plateaus(whole)] == [0, 2, 5]
    assert [start for start, _ in plateaus(filled)] == [0, 2, 5], "no drop was added"
    assert sum(filled) >= sum(whole)
    one_more = torch.tensor([c if c == 97 else c + 1 for c in whole])
    full = int(model.full(Workload(5, 97)))
    assert int(model.price(torch.tensor(whole), Workload(5, 97))) / full <= 0.613
    assert int(model.price(one_more, Workload(5, 97))) / full > 0.613


@LAW
@given(
    st.sampled_from([cost.get(name, SMALL) for name in ("exact", "paper", "kv-bytes")]),
    curves, st.floats(0, 1), st.integers(1, 40), st.integers(1, 120),
)  # fmt: skip
def test_a_budget_that_lacks_one_unit_of_a_plan_gets_a_cheaper_plan(model, curve, share, text, visual):
    """Budgets that lie exactly between two prices: so a limit that is one FLOP, or one byte, too high is seen."""
    workload = Workload([text], [visual])
    full, floor = int(model.full(workload)[0]), int(model.floor(workload)[0])
    retention = torch.tensor([curve], dtype=torch.float64)

    def spent(limit):
        budget = torch.tensor([limit / full], dtype=torch.float64)
        return int(model.price(cost.snap(retention, budget, workload, model), workload)[0])

    price = spent(floor + share * (full - floor))
    assert spent(price) <= price
    if price > floor:
        assert spent(price - 1) < price


def test_a_budget_under_the_floor_is_raised_with_a_warning_that_names_it():
    model = cost.get("exact", SMALL)
    workload = Workload([10, 10, 10], [100, 300, 0])
    floor = float(model.lowest_fraction(Workload(10, 100)))
    with pytest.warns(BudgetWarning, match=f"floor of {floor:.4g}"):
        counts = cost.snap(torch.ones(3, L), torch.tensor([0.01, 0.9, 0.01]), workload, model)
    assert counts[0].tolist() == [100, 0, 0, 0, 0, 0, 0]
    assert counts[2].tolist() == [0] * L
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cost.snap(
            torch.ones(1, L), torch.tensor([0.01]), Workload([10], [0]), model
        )  # nothing to prune, nothing to say


def test_budgets_outside_of_zero_to_one_are_refused():
    model = cost.get("exact", SMALL)
    for budget in (1.5, -0.1, float("nan")):
        with pytest.raises(InvalidInputError, match="fraction of the unpruned"):
            cost.schedule_for_budget(kernels.get("linear"), torch.zeros(2), budget, Workload(5, 50), model)
    with pytest.raises(InvalidInputError, match="one dimension of samples"):
        cost.schedule_for_budget(kernels.get("linear"), torch.zeros(3, 2, 2), 0.5, Workload(5, 50), model)


@pytest.mark.parametrize("batch", [1, 5, 70])
def test_bisection_finds_the_edge_to_the_bit_in_every_batch(batch):
    edge = torch.linspace(-1.0, 1.0, 70, dtype=torch.float64)[:batch] ** 3
    low, high = torch.full_like(edge, -1.0), torch.full_like(edge, 1.0)
    found = largest_fitting(lambda x: x <= edge, low, high)
    expected = [math.floor((e + 1) / 2 * 2**45) / 2**45 * 2 - 1 for e in edge.tolist()]
    assert found.tolist() == expected


@LAW
@given(st.lists(st.tuples(st.integers(0, 500), st.integers(0, 500)), min_size=1, max_size=40), st.integers(2, 20))
def test_the_largest_whole_number_is_found(pairs, parts):
    most, edge = np.array(pairs).T
    found = largest_count(lambda x: x <= edge, most, parts=parts)
    assert found.tolist() == [min(pair) for pair in pairs]


@LAW
@given(st.floats(0, 1), st.integers(1, 2**52))
def test_the_limit_is_the_most_that_fits(budget, full):
    limit = int(host_limit(np.array([budget]), np.array([full]))[0])
    assert limit / full <= budget
    assert (limit + 1) / full > budget


def test_the_whole_budget_is_the_whole_model():
    model = cost.get("exact", SMALL)
    for site in ("entry", "mid"):
        schedule = cost.schedule_for_budget(kernels.get("steps"), torch.zeros(6), 1.0, Workload(5, 50, site), model)
        assert schedule.retention == (1.0,) * L
        assert not schedule.per_sample


@LAW
@given(samples, st.floats(-3, 3))
def test_no_later_drop_saves_less_than_it_is_worth(rows, slope):
    deep = replace(SMALL, num_layers=24, windows=(None,) * 24)
    model, kernel = cost.get("exact", deep), kernels.get("linear")
    budget, text, visual = columns(rows)
    workload = Workload(text, visual)
    params = kernel.initial(24)
    params[-1] += slope
    params = params.expand(len(rows), -1)
    counts = quietly(cost.counts_for_budget, kernel, params, budget, workload, model)
    unjoined = quietly(cost.counts_for_budget, kernel, params, budget, workload, model, fill=False)
    assert_on_budget(counts, budget, workload, model)
    for b, row in enumerate(counts.tolist()):
        one, full = Workload(int(text[b]), int(visual[b])), int(model.full(workload)[b])
        starts = [start for start, _ in plateaus(row)][1:]
        assert len(starts) <= max(1, len(plateaus(unjoined[b].tolist())))
        for before, layer in pairwise(starts):  # the first drop stays, whatever it saves
            end = next((end for start, end in plateaus(row) if start == layer))
            kept = [*row[:layer], *[row[before]] * (end - layer), *row[end:]]
            saved = int(model.price(torch.tensor(kept), one)) - int(model.price(torch.tensor(row), one))
            # filling came after: it brings a plateau nearer to the one before by less than a token a layer
            spare = int(model.price(torch.tensor([c + 1 for c in row]), one)) - int(model.price(torch.tensor(row), one))
            assert saved >= model.least_saving * full - spare, f"the drop at {layer} of {row}"
