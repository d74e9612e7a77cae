"""One inner step: its price against a grid, its direction against differences, its lengths against real dropping."""

import pytest
import torch

import tiny
from vispco import kernels
from vispco.kernels import KERNELS
from vispco.search.gradient.descent_step import (
    _FURTHEST,
    best_along,
    bound_price_slope,
    descent_direction,
    minimise_price,
    slopes,
    unsaturate,
)
from vispco.search.gradient.lagrangian import AugmentedLagrangian, LagrangianSettings, penalty
from vispco.search.gradient.projection import Pricing, project
from vispco.search.initial_shapes import initial_shapes
from vispco.search.objective import frozen
from vispco.search.shape_pool import measure_shapes, median_size

L = tiny.LAYERS


def typical(objective, batches):
    return Pricing(objective.workload(median_size(batches)), objective.cost)


def one(value):
    return torch.tensor([value], dtype=torch.float64)


@pytest.mark.parametrize("slope", [-3.0, -0.4, 0.0])
@pytest.mark.parametrize("w", [0.0, 0.3, 2.0])
@pytest.mark.parametrize("lam", [1.0, 40.0])
def test_the_price_minimises_the_linear_lagrangian_within_its_reach(slope, w, lam):
    budget, price = 0.5, 0.62
    found = float(minimise_price(one(price), one(slope), budget, one(w), one(lam)))
    grid = torch.linspace(budget - _FURTHEST, price + _FURTHEST, 20_001, dtype=torch.float64)
    phi = slope * grid + penalty(budget - grid, one(w), one(lam))
    assert budget - _FURTHEST - 1e-12 <= found <= price + _FURTHEST + 1e-12
    at_found = slope * found + float(penalty(one(budget - found), one(w), one(lam)))
    assert at_found <= float(phi.min()) + 1e-9


def test_the_multiplier_becomes_the_price_of_a_flop_and_the_violation_vanishes():
    slope, budget = one(-7.0), 0.4
    price, multiplier = one(0.9), AugmentedLagrangian(LagrangianSettings(lam=1.0, alpha=5.0, epsilon=1e-3))
    for _ in range(12):
        price = minimise_price(price, slope, budget, multiplier.w, multiplier.lam)
        done = multiplier.update(multiplier.statistics(budget - price, torch.tensor([0])))
    assert done
    assert float(multiplier.w) == pytest.approx(7.0, rel=1e-3)
    assert float(price) == pytest.approx(budget, abs=1e-3)


def test_slopes_are_those_of_the_mean_over_all_samples(batches, objective):
    kernel, price = kernels.get("steps"), torch.full((2,), 0.6, dtype=torch.float64)
    shape = initial_shapes(kernel, L)[[0, -1]]
    with frozen(objective.model):
        both = slopes(objective, batches[:2], kernel, shape, price, 3.0)
        each = [slopes(objective, [batch], kernel, shape, price, 3.0) for batch in batches[:2]]
    sizes = torch.tensor([len(batch) for batch in batches[:2]], dtype=torch.float64)
    for name in ("kl", "shape", "price"):
        mean = sum(n * getattr(s, name) for n, s in zip(sizes, each, strict=True)) / sizes.sum()
        torch.testing.assert_close(getattr(both, name), mean)


def test_where_nothing_is_dropped_the_slopes_are_0(batches, objective):
    shape = initial_shapes(kernels.get("multi-step"), L)[:1]
    with frozen(objective.model):
        found = slopes(objective, batches[:1], kernels.get("multi-step"), shape, one(1.0), None)
    assert float(found.kl.abs()) < 1e-5
    assert float(found.shape.abs().max()) == 0.0
    assert float(found.price.abs()) == 0.0


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_the_direction_goes_down_a_function_of_the_curve(name, batches, objective):
    kernel, size = kernels.get(name), typical(objective, batches)
    price, gamma = one(0.8), 2.0 if kernels.get(name).annealable else None
    raw = unsaturate(kernel, initial_shapes(kernel, L)[1:2], 0.8, size)
    weights = torch.linspace(-1.0, 1.0, L, dtype=torch.float64).square()

    def value(shape):
        return (project(kernel, shape, price, size, gamma=gamma) * weights).sum()

    raw.requires_grad_()
    (slope,) = torch.autograd.grad(value(raw), raw)
    towards = descent_direction(kernel, raw.detach(), slope, price, size, gamma)
    assert float(towards.abs().max()) == pytest.approx(1.0)
    assert float((towards * slope).sum()) < 0
    assert float(value(raw.detach() + 1e-4 * towards)) < float(value(raw.detach()))


def test_a_free_curve_that_was_lifted_to_the_budget_has_a_gradient_again(batches, objective):
    kernel, size = kernels.get("free"), typical(objective, batches)
    raw = kernel.initial(L, retention=[1.0, *(0.01 * 0.999**i for i in range(1, L))])[None]
    curve = project(kernel, raw, one(0.8), size)
    alive = unsaturate(kernel, raw, 0.8, size).requires_grad_()
    again = project(kernel, alive, one(0.8), size)
    torch.testing.assert_close(again, curve, atol=0.02, rtol=0)
    (slope,) = torch.autograd.grad(again[0, -1], alive)
    assert int((slope.abs() > 1e-4).sum()) > 1


def test_the_best_length_is_the_one_with_the_least_kl_by_real_dropping(batches, objective):
    kernel = kernels.get("steps", steps=2)
    shape = initial_shapes(kernel, L)[-1]
    towards = torch.linspace(-1.0, 1.0, len(shape), dtype=torch.float64)
    lengths = (0.5, 1.0, 3.0)
    best, place = best_along(objective, batches, kernel, shape, 0.6, towards, lengths)
    tried = torch.stack([shape + length * towards for length in (0.0, *lengths)])
    kl = torch.cat([measure_shapes(objective, batch, kernel, tried, 0.6) for batch in batches], dim=-1).mean(-1)
    assert torch.equal(best, tried[place])
    assert place == int(kl.argmin())


def test_no_slope_takes_away_more_than_all_of_the_kl_in_a_step_of_epsilon():
    kl = torch.tensor([0.4, 0.4, 0.4])
    found = bound_price_slope(torch.tensor([-4e5, -3.0, 2.0], dtype=torch.float64), kl, 0.005)
    assert found.tolist() == pytest.approx([-80.0, -3.0, 2.0])
    w, lam, price = (torch.zeros(1, dtype=torch.float64) + each for each in (0.0, 100.0, 0.8))
    for _ in range(12):  # Algorithm 1 with a slope that stays
        price = minimise_price(price, found[:1], 0.5, w, lam)
        w = (w - lam * (0.5 - price)).clamp_min(0.0)
    assert float(price) == pytest.approx(0.5, abs=0.005)
