"""What holds for every kernel: range, order, gradients, budgets, and that its description leads back to it."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vispco import cost, kernels
from vispco.core.errors import InvalidInputError, UnknownNameError
from vispco.cost import Dimensions, Workload
from vispco.kernels import KERNELS

LAW = settings(max_examples=25, deadline=None)
SIZE = Dimensions(
    num_layers=9, hidden=40, heads=4, kv_heads=2, head_dim=10, ffn=72, gated=True,
    windows=(None,) * 9, vocab=9, dtype_bytes=2,
)  # fmt: skip
names = pytest.mark.parametrize("name", sorted(KERNELS))


def parameters(data, kernel, num_layers, reach, dtype=torch.float64):
    count = kernel.num_parameters(num_layers)
    return torch.tensor(data.draw(st.lists(st.floats(-reach, reach), min_size=count, max_size=count)), dtype=dtype)


@names
@LAW
@given(st.data(), st.integers(4, 40), st.sampled_from([0.0, 0.05, 0.5]), st.integers(0, 3))
def test_never_grows_and_stays_in_range(name, data, num_layers, r_min, earliest_layer):
    kernel = kernels.get(name, r_min=r_min, earliest_layer=earliest_layer)
    for dtype in (torch.float32, torch.float64):
        retention = kernel(parameters(data, kernel, num_layers, 60.0, dtype), num_layers)
        assert retention.dtype == dtype
        assert retention.shape == (num_layers,)
        assert bool(((retention >= torch.tensor(r_min, dtype=dtype)) & (retention <= 1)).all())
        assert bool((retention.diff() <= 0).all())
        assert retention[:earliest_layer].tolist() == [1.0] * earliest_layer


@names
@LAW
@given(st.data(), st.integers(5, 12), st.sampled_from([0.0, 0.1]), st.integers(0, 3))
def test_gradients_are_right_finite_and_alive(name, data, num_layers, r_min, earliest_layer):
    kernel = kernels.get(name, r_min=r_min, earliest_layer=earliest_layer)
    params = parameters(data, kernel, num_layers, 3.0).requires_grad_()
    soft = {"gamma": 1.0} if kernel.annealable else {}
    assert torch.autograd.gradcheck(lambda p: kernel(p, num_layers, **soft), params)
    weights = torch.linspace(1.0, 2.0, num_layers, dtype=torch.float64) ** 2
    (gradient,) = torch.autograd.grad((kernel(params, num_layers, **soft) * weights).sum(), params)
    assert bool(gradient.isfinite().all())
    assert gradient[kernel.budget_parameter] > 0
    jacobian = torch.autograd.functional.jacobian(lambda p: kernel(p, num_layers, **soft), params)
    assert bool((jacobian.abs().amax(dim=0) > 0).all()), "a parameter that moves no layer is clipped away"


@names
@LAW
@given(st.data(), st.integers(2, 20), st.floats(0.01, 5.0))
def test_raising_the_budget_parameter_never_lowers_a_layer(name, data, num_layers, step):
    kernel = kernels.get(name, r_min=0.05)
    params = parameters(data, kernel, num_layers, 8.0)
    more = params.clone()
    more[kernel.budget_parameter] += step
    assert bool((kernel(more, num_layers) >= kernel(params, num_layers) - 1e-12).all())


@names
@LAW
@given(st.data(), st.floats(0.1, 1.0), st.integers(1, 40), st.integers(1, 300), st.integers(0, 2))
@pytest.mark.filterwarnings("ignore::vispco.cost.BudgetWarning")
def test_a_budget_is_solved_for_never_exceeded_and_used(name, data, budget, text, visual, earliest_layer):
    kernel = kernels.get(name, earliest_layer=earliest_layer)
    workload, exact = Workload([text], [visual], "entry", earliest_layer), cost.get("exact", SIZE)
    params = parameters(data, kernel, SIZE.num_layers, 5.0)[None]
    counts = cost.counts_for_budget(kernel, params, torch.tensor([budget], dtype=torch.float64), workload, exact)
    allowed = max(budget, float(exact.lowest_fraction(workload)[0]))
    assert bool((counts.diff(dim=-1) <= 0).all())
    assert counts[0, :earliest_layer].tolist() == [visual] * earliest_layer
    assert float(exact.fraction_of_counts(counts, workload)[0]) <= allowed
    more = torch.where(counts < visual, counts + 1, counts)
    assert torch.equal(more, counts) or float(exact.fraction_of_counts(more, workload)[0]) > allowed


@names
def test_a_batch_is_its_rows(name):
    kernel = kernels.get(name)
    params = torch.randn(2, 3, kernel.num_parameters(9), dtype=torch.float64, generator=torch.manual_seed(0))
    together = kernel(params, 9)
    assert together.shape == (2, 3, 9)
    for a in range(2):
        for b in range(3):
            torch.testing.assert_close(together[a, b], kernel(params[a, b], 9), rtol=0, atol=1e-15)
    assert kernel(params.bfloat16(), 9).dtype == torch.float32


@names
def test_start_and_config_lead_back(name):
    for options in ({}, {"r_min": 0.2, "earliest_layer": 0}):
        kernel = kernels.get(name, **options)
        assert kernels.get(**kernel.config()) == kernel
        start = kernel.initial(12)
        assert len(start) == kernel.num_parameters(12) == len(kernel.parameter_names(12))
        retention = kernel(start, 12)
        assert 0.3 < retention.mean() < 1.0
        assert kernel.describe(start, 12)


@names
def test_mistakes_are_named(name):
    kernel = kernels.get(name)
    with pytest.raises(InvalidInputError, match="takes floating-point"):
        kernel(torch.zeros(kernel.num_parameters(8) + 1), 8)
    with pytest.raises(InvalidInputError, match="at least 2"):
        kernel(torch.zeros(2), 1)
    with pytest.raises(InvalidInputError, match=r"\[0, 1\)"):
        kernels.get(name, r_min=1.0)
    with pytest.raises(InvalidInputError, match="It takes: r_min, earliest_layer"):
        kernels.get(name, colour="red")
    with pytest.raises(InvalidInputError, match="gamma=-1"):
        kernel(torch.zeros(kernel.num_parameters(8)), 8, gamma=-1.0)


def test_an_earliest_layer_that_leaves_nothing_to_prune_is_refused():
    with pytest.raises(InvalidInputError, match="counted from 0"):
        kernels.get("free", earliest_layer=-1)
    with pytest.raises(InvalidInputError, match="from layer 4 on, and was asked for 4 layers"):
        kernels.get("linear", earliest_layer=4)(torch.zeros(2), 4)


def test_an_unknown_kernel_lists_the_known():
    with pytest.raises(UnknownNameError, match="multi-step"):
        kernels.get("cosine")


def test_annealing_ends_in_the_hard_step():
    for name, meaning in (("single", {"layer": 5}), ("steps", {"positions": [1.5, 2.5, 9.5]})):
        kernel = kernels.get(name)
        params = kernel.initial(12, **meaning)
        soft, hard = kernel(params, 12, gamma=400.0), kernel(params, 12, gamma=math.inf)
        torch.testing.assert_close(soft, hard, rtol=0, atol=1e-9)
