"""Projection: the budget is met by construction, and the gradient is that of the solved curve."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vispco import kernels
from vispco.cost import Dimensions, Exact, Workload
from vispco.kernels import KERNELS
from vispco.search.gradient.projection import Pricing, project

L = 6
COST = Exact(
    Dimensions(
        num_layers=L, hidden=32, heads=4, kv_heads=2, head_dim=8, ffn=64, gated=True,
        windows=(None,) * L, vocab=64, dtype_bytes=4,
    )
)  # fmt: skip
names = pytest.mark.parametrize("name", sorted(KERNELS))


def price(batch=1, text=10, visual=60):
    return Pricing(Workload(torch.full((batch,), text), torch.full((batch,), visual)), COST)


@names
@settings(max_examples=15, deadline=None)
@given(st.data(), st.floats(0.0, 1.0))
def test_every_curve_costs_its_budget(name, data, share):
    kernel, pricing = kernels.get(name), price()
    count = kernel.num_parameters(L)
    params = torch.tensor([data.draw(st.lists(st.floats(-5, 5), min_size=count, max_size=count))], dtype=torch.float64)
    floor = pricing.cost.lowest_fraction(Workload(10, 60)).item()
    budget = torch.tensor([floor + share * (1 - floor)], dtype=torch.float64)
    retention = project(kernel, params, budget, pricing)
    assert pricing.fraction(retention).item() == pytest.approx(budget.item(), abs=1e-8)
    assert bool((retention.diff() <= 1e-12).all())
    assert retention[0, 0] == 1


@names
@pytest.mark.parametrize("budget", [0.45, 0.7])
def test_the_implicit_gradient_is_that_of_finite_differences(name, budget):
    kernel, pricing = kernels.get(name), price(2)
    torch.manual_seed(1)
    start = kernel.initial(L) + 0.1 * torch.randn(2, kernel.num_parameters(L), dtype=torch.float64)
    gamma = 1.5 if kernel.annealable else None

    def curve(params, budgets):
        return project(kernel, params, budgets, pricing, gamma=gamma)

    given_budget = torch.tensor([budget, budget + 0.05], dtype=torch.float64)
    assert torch.autograd.gradcheck(
        curve, (start.requires_grad_(), given_budget.requires_grad_()), eps=1e-5, atol=1e-4, rtol=1e-3
    )


@pytest.mark.parametrize(("layer", "budget"), [(5, 0.4), (1, 0.95)])
def test_a_budget_that_the_parameter_cannot_reach_is_met_by_cutting_with_the_right_gradient(layer, budget):
    kernel, pricing = kernels.get("p-sigmoid"), price()
    params = kernel.initial(L, layer=layer)[None].requires_grad_()
    if budget > 0.9:  # a curve that cannot rise: its ceiling is under the budget for every r
        kernel = kernels.get("linear")
        params = torch.tensor([[4.0, 0.0]], dtype=torch.float64, requires_grad=True)
    given_budget = torch.tensor([budget], dtype=torch.float64, requires_grad=True)
    assert pricing.fraction(project(kernel, params, given_budget, pricing)).item() == pytest.approx(budget, abs=1e-8)
    assert torch.autograd.gradcheck(
        lambda p, b: project(kernel, p, b, pricing), (params, given_budget), eps=1e-5, atol=1e-4, rtol=1e-3
    )


def test_descent_on_what_is_free_never_leaves_the_budget():
    kernel, pricing = kernels.get("steps"), price()
    params = kernel.initial(L)[None].requires_grad_()
    budget = torch.tensor([0.5], dtype=torch.float64)
    wanted = torch.tensor([1, 1, 1, 0.2, 0.2, 0.2], dtype=torch.float64)
    optimizer = torch.optim.Adam([params], 0.1)
    first = last = None
    for _ in range(60):
        optimizer.zero_grad()
        retention = project(kernel, params, budget, pricing, gamma=2.0)
        last = (retention - wanted).square().sum()
        first = last if first is None else first
        last.backward()
        optimizer.step()
        assert pricing.fraction(retention).item() == pytest.approx(0.5, abs=1e-8)
    assert last < 0.5 * first
