"""Static, line and halving searches on small random models."""

import pytest
import torch

import tiny
from search.random_batches import make_batches
from vispco import kernels
from vispco.core.errors import InvalidInputError
from vispco.cost import BudgetWarning
from vispco.kernels import KERNELS
from vispco.pruner.search_files import FoundShape
from vispco.search.gradient.lagrangian import LagrangianSettings
from vispco.search.gradient.relaxation import GaussianMask
from vispco.search.gradient.static import DescentSettings, static_search
from vispco.search.initial_shapes import initial_shapes
from vispco.search.objective import Objective
from vispco.search.shape_pool import ShapePool, counts_at_budget, measure_shapes, median_size
from vispco.search.successive_halving import explored_shapes, line_search, rank_shapes, shape_search

SHORT = DescentSettings(starts=2, outer=2, inner=1, explore=4)
L = tiny.LAYERS


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_the_shapes_of_a_kernel_differ_and_are_finite(name):
    kernel = kernels.get(name)
    found = initial_shapes(kernel, 8)
    assert found.shape[1] == kernel.num_parameters(8)
    assert bool(found.isfinite().all())
    assert len(found.unique(dim=0)) == len(found) >= 7


def test_a_pool_has_each_curve_once_and_knows_neighbours(batches, objective):
    kernel = kernels.get("steps", steps=2)
    every = initial_shapes(kernel, L)
    pool = ShapePool.at(objective, kernel, every, 0.6, median_size(batches))
    whole = counts_at_budget(objective, batches[0].sizes, kernel, every, 0.6).flatten(1)
    assert 2 < len(pool) <= len(every)
    assert len(pool.curves.unique(dim=0)) == len(pool)
    assert len(whole.unique(dim=0)) >= len(pool)  # samples of other sizes may tell more shapes apart
    assert all(bool((every == row).all(-1).any()) for row in pool.params)
    some = pool.spread(4)
    assert len(set(some.tolist())) == 4
    near = pool.nearest(pool.curves[some[:1]])
    away = (pool.curves - pool.curves[some[0]]).abs().sum(-1)
    assert sorted(near.tolist()) == list(range(len(pool)))
    assert away[near].tolist() == sorted(away.tolist())
    assert near[0] == some[0]


@pytest.mark.parametrize(
    ("name", "solver"),
    [*((name, "lagrangian") for name in sorted(KERNELS)), ("steps", "projection"), ("free", "projection")],
)
def test_every_kernel_is_searched(name, solver, batches, objective):
    found = static_search(objective, batches[:1], kernels.get(name), 0.7, solver=solver, descent=SHORT)
    assert found.params.shape == (kernels.get(name).num_parameters(L),)
    assert found.kl >= 0
    again = FoundShape.from_dict(found.to_dict())
    assert torch.equal(again.params, found.params)


def test_the_lagrangian_meets_the_budget(batches, objective):
    plan = DescentSettings(starts=2, outer=6, inner=1, batches=1, price=0.9)
    settings = LagrangianSettings(lam=100, alpha=5, epsilon=0.01)
    found = static_search(
        objective, batches, kernels.get("p-sigmoid"), 0.7, solver="lagrangian", descent=plan, settings=settings
    )
    assert found.converged
    assert max(found.history[-2]["violation"]) < 0.01
    assert found.history[-2]["price"] == pytest.approx([0.7, 0.7], abs=0.01)  # from 0.9


def test_the_search_is_never_worse_than_the_best_of_its_starts(batches, objective):
    kernel = kernels.get("steps", steps=2)
    pool, explored = explored_shapes(objective, kernel, 0.6, batches, SHORT.explore)
    starts = rank_shapes(objective, batches, kernel, pool.params[explored], 0.6)
    found = static_search(objective, batches, kernel, 0.6, descent=SHORT)
    assert found.kl <= kl_mean(objective, batches, kernel, starts.params[0], 0.6) + 1e-6


def kl_mean(objective, batches, kernel, params, budget):
    return float(torch.cat([measure_shapes(objective, b, kernel, params[None], budget)[0] for b in batches]).mean())


def test_a_line_search_finds_what_trying_all_values_finds(batches, objective):
    kernel = kernels.get("single")
    found = line_search(objective, batches, kernel, 0.6, rungs=1)
    every = [kl_mean(objective, batches, kernel, p, 0.6) for p in initial_shapes(kernel, L)]
    assert found.kl == pytest.approx(min(every), abs=1e-6)


def test_a_search_by_halving_finds_what_trying_all_shapes_finds_without_a_gradient(batches, objective):
    kernel = kernels.get("steps", steps=2)
    pool, _ = explored_shapes(objective, kernel, 0.6, batches, None)
    found = shape_search(objective, batches[:1], kernel, 0.6, explore=None)
    everything = measure_shapes(objective, batches[0], kernel, pool.params, 0.6).mean(-1)
    assert found.kl == pytest.approx(float(everything.min()), abs=1e-6)
    assert objective.spent.forward == objective.spent.backward == 0
    few = shape_search(objective, batches, kernel, 0.6, explore=4)
    assert few.history[0]["explored"] == 4
    assert few.history[0]["neighbours"] == 2
    assert few.kl <= few.history[0]["start_kl"]
    with pytest.raises(InvalidInputError, match="explore=0"):
        shape_search(objective, batches, kernel, 0.6, explore=0)


@pytest.mark.parametrize("scorer", ["sparsevlm(recycle=true)", "aim-merge+aim"])
def test_a_search_by_halving_takes_methods_that_merge(scorer, batches):
    objective = Objective(tiny.build("qwen2_5_vl"), scorer)
    kernel = kernels.get("steps", steps=2, earliest_layer=objective.scorer.earliest_layer)
    found = shape_search(objective, batches[:1], kernel, 0.7, explore=3)
    assert found.kl >= 0
    assert objective.spent.measured > 0


def test_a_line_search_refuses_a_kernel_with_more_than_one_free_parameter(batches, objective):
    with pytest.raises(InvalidInputError, match="one free parameter"):
        line_search(objective, batches, kernels.get("free"), 0.6)


def test_an_unknown_solver_is_refused(batches, objective):
    with pytest.raises(InvalidInputError, match="lagrangian"):
        static_search(objective, batches, kernels.get("free"), 0.6, solver="magic")


@pytest.mark.parametrize(
    ("family", "scorer"), list(zip(tiny.FIRST_CLASS, ["sparsevlm", "fitprune", "fastv"], strict=False))
)
def test_every_family_and_scorer_is_searched(family, scorer):
    objective = Objective(tiny.build(family), scorer, relaxation=GaussianMask(2.0, 0.3))
    found = static_search(objective, make_batches(family, 1), kernels.get("single"), 0.7, descent=SHORT)
    assert found.kl >= 0


def test_a_budget_under_the_floor_is_the_floor(batches, objective):
    with pytest.warns(BudgetWarning):
        found = static_search(
            objective, batches[:1], kernels.get("p-sigmoid"), 0.05, solver="lagrangian", descent=SHORT
        )
    assert found.budget == 0.05
    assert found.kl >= 0
