"""A cost that a user writes: `price` is all it needs, to be solved for, filled, saved and run."""

import json
import warnings
from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import tiny
from cost.formulas import plateaus
from cost.test_laws import made
from vispco import Pruner, cost, kernels
from vispco.cost import COSTS, BudgetWarning, Cost, Dimensions, Workload
from vispco.families import family_of
from vispco.pruner.budget_planner import BudgetPlanner, static_shape
from vispco.scorers import Chain

L = 6
SIZE = Dimensions(
    num_layers=L, hidden=40, heads=4, kv_heads=2, head_dim=10, ffn=72, gated=True,
    windows=(None, 20, None, 30, None, None), vocab=9, dtype_bytes=2,
)  # fmt: skip
curves = st.lists(st.floats(0, 1), min_size=L, max_size=L).map(lambda r: sorted(r, reverse=True))
samples = st.lists(st.tuples(st.floats(0, 1), st.integers(1, 40), st.integers(0, 120)), min_size=1, max_size=4)


@dataclass(frozen=True)
class Milliseconds(Cost):
    """A machine that computes in tiles: the time of a layer is a staircase in its tokens."""

    name: ClassVar[str] = "toy-ms"
    unit: ClassVar[str] = "ms"

    tile: int = 16
    per_tile: tuple[float, float] = (0.02, 0.003)

    def price(self, counts, workload):
        tiles = -(-workload.tokens(counts) // self.tile)
        linear, quadratic = self.per_tile
        return 0.1 + (tiles * (linear + quadratic * tiles)).sum(dim=-1)


@dataclass(frozen=True)
class Peak(Cost):
    """Not a sum over layers: the widest layer behind the first decides."""

    name: ClassVar[str] = "toy-peak"
    unit: ClassVar[str] = "tokens"

    def price(self, counts, workload):
        return 100 * workload.tokens(counts)[..., 1:].amax(dim=-1) + counts.sum(dim=-1)


@pytest.fixture
def registered(monkeypatch):
    monkeypatch.setattr(COSTS, "_items", dict(COSTS._items))
    COSTS.register(Milliseconds)


OWN = st.sampled_from([Milliseconds(SIZE), Milliseconds(SIZE, tile=1), Peak(SIZE), *(made(n, SIZE) for n in COSTS)])


def assert_on_budget(counts, budget, workload, priced):
    """Within the budget or the floor, never growing, and no plateau with room for one more token."""
    allowed = torch.maximum(budget, priced.lowest_fraction(workload))
    before = torch.cat([workload.num_visual[:, None], counts[:, :-1]], dim=1)
    assert bool((counts <= before).all())
    assert bool((counts[:, : workload.earliest_layer] == workload.num_visual[:, None]).all())
    assert bool((priced.fraction_of_counts(counts, workload) <= allowed).all())
    for b, row in enumerate(counts.tolist()):
        for start, stop in plateaus(row):
            more = counts.clone()
            more[b, start:stop] += 1
            if more[b, start] <= before[b, start]:
                assert float(priced.fraction_of_counts(more, workload)[b]) > float(allowed[b])


@settings(max_examples=40, deadline=None)
@given(OWN, st.data(), samples, st.sampled_from(["single", "steps", "linear", "free"]), st.integers(0, 2))
def test_any_cost_is_solved_for_and_filled(priced, data, rows, name, earliest_layer):
    budget, text, visual = (torch.tensor(column) for column in zip(*rows, strict=True))
    workload, kernel = Workload(text, visual, "entry", earliest_layer), kernels.get(name, earliest_layer=earliest_layer)
    count = kernel.num_parameters(L)
    params = torch.tensor(data.draw(st.lists(st.floats(-5, 5), min_size=count, max_size=count)), dtype=torch.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BudgetWarning)
        counts = cost.counts_for_budget(kernel, params.expand(len(rows), -1), budget.double(), workload, priced)
    assert_on_budget(counts, budget.double(), workload, priced)


@settings(max_examples=40, deadline=None)
@given(OWN, curves, curves, st.integers(1, 20), st.integers(0, 60))
def test_the_price_between_whole_tokens_is_interpolated(priced, curve, other, text, visual):
    workload = Workload(text, visual)
    low, high = (torch.tensor(c, dtype=torch.float64) for c in (curve, other))
    low, high = torch.minimum(low, high), torch.maximum(low, high)
    assert float(Cost.relaxed(priced, low, workload)) <= float(Cost.relaxed(priced, high, workload)) + 1e-9
    counts = (high * visual).floor()
    whole = Cost.relaxed(priced, counts / max(visual, 1), workload)
    assert float(whole) == pytest.approx(float(priced.price(counts.long(), workload)))


def test_the_interpolation_has_the_slope_of_the_price():
    retention = torch.tensor([1.0, 0.71, 0.52, 0.33, 0.24, 0.05], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda r: Milliseconds(SIZE).fraction(r, Workload(9, 61)), retention)
    smooth, workload = cost.get("exact", SIZE), Workload(9, 100_000)
    (own,) = torch.autograd.grad(smooth.relaxed(retention, workload), retention)
    (interpolated,) = torch.autograd.grad(Cost.relaxed(smooth, retention, workload), retention)
    torch.testing.assert_close(interpolated, own, rtol=1e-3, atol=0)


def test_it_is_found_by_name_and_saved_as_data(registered):
    made = cost.get("toy-ms", SIZE)
    assert made == Milliseconds(SIZE)
    other = Milliseconds(SIZE, tile=8, per_tile=(0.5, 0.25))
    assert cost.from_dict(json.loads(json.dumps(other.to_dict()))) == other


def test_a_pruner_keeps_every_sample_within_its_milliseconds():
    family = "qwen2_5_vl"
    batch = [tiny.DEFAULT, (tiny.words(2, 1), tiny.picture(8, 6), tiny.words(9, 2))]
    model, inputs = tiny.build(family), tiny.inputs(family, batch)
    milliseconds = Milliseconds(Dimensions.from_config(model.config), tile=4)
    kernel = kernels.get("steps", steps=2)
    shape = static_shape(kernel.initial(milliseconds.num_layers))
    planner = BudgetPlanner(shape, kernel, 0.7, milliseconds, chain=Chain.of("fastv"))
    seen = []

    def noted(layout, embeddings):
        seen.append(planner(layout, embeddings))
        return seen[-1]

    with Pruner("fastv", noted)(model), torch.no_grad():
        model(**inputs)
    layout = family_of(model).layout(model, inputs)
    workload = Workload(layout.num_text, layout.num_visual)
    assert_on_budget(
        seen[0].counts, torch.full((len(layout.num_text),), 0.7, dtype=torch.float64), workload, milliseconds
    )
    assert bool((seen[0].counts[:, -1] < workload.num_visual).any())
