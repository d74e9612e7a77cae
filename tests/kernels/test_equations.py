"""Each kernel against its equation, written out layer by layer, and against the meaning that `initial` was given."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vispco import kernels
from vispco.core.errors import InvalidInputError

LAW = settings(max_examples=30, deadline=None)
L = 12


def sigm(x):
    return 1 / (1 + math.exp(-x))


def values(kernel, params, **options):
    return kernel(params, L, **options).tolist()


@pytest.mark.parametrize(("name", "gamma"), [("single", 10.0), ("p-sigmoid", 0.5)])
@LAW
@given(st.floats(0, 11), st.floats(0.01, 0.99))
def test_single(name, gamma, k, r):
    kernel = kernels.get(name, earliest_layer=0)
    params = kernel.initial(L, k=k, r=r)
    assert values(kernel, params) == pytest.approx([1 + (r - 1) * sigm(gamma * (i - k)) for i in range(L)], abs=1e-9)
    meaning = kernel.describe(params, L)
    assert (meaning["k"], meaning["r"]) == pytest.approx((k, r), abs=1e-9)


def test_single_by_its_layer_is_the_step_at_that_layer():
    kernel = kernels.get("single")
    for layer in range(L + 1):
        params = kernel.initial(L, layer=layer, r=0.25)
        assert kernel.describe(params, L)["layer"] == layer
        expected = [1.0 if i < max(layer, 1) else 0.25 for i in range(L)]
        assert values(kernel, params, gamma=math.inf) == pytest.approx(expected)
    with pytest.raises(InvalidInputError, match="Give one of them"):
        kernel.initial(L, layer=2, k=2.0)


@LAW
@given(st.floats(0, 1), st.floats(0.05, 1))
def test_linear(slope, r):
    for r_min in (0.0, 0.04):
        kernel = kernels.get("linear", r_min=r_min, earliest_layer=0)
        k = slope * (r - r_min) / (L - 1) * 0.999
        params = kernel.initial(L, k=k, r=r)
        assert values(kernel, params) == pytest.approx([-k * i + r for i in range(L)], abs=1e-5)
        assert (kernel.describe(params, L)["k"], kernel.describe(params, L)["r"]) == pytest.approx((k, r), abs=1e-5)


@LAW
@given(st.floats(0, 0.2), st.floats(0.5, 1))
def test_exponential(k, r):
    for r_min in (0.0, 0.05):
        kernel = kernels.get("exponential", r_min=r_min, earliest_layer=0)
        params = kernel.initial(L, k=k, r=r)
        assert values(kernel, params) == pytest.approx([r * math.exp(-k * i) for i in range(L)], abs=1e-5)
        assert (kernel.describe(params, L)["k"], kernel.describe(params, L)["r"]) == pytest.approx((k, r), abs=1e-5)


@LAW
@given(st.floats(0.01, 20), st.floats(0, 1), st.integers(1, 5))
def test_multi_step(k, r, M):
    kernel = kernels.get("multi-step", steps=M, earliest_layer=0)
    params = kernel.initial(L, k=k, r=r)
    expected = [
        1 - sum((1 - r) / M * sigm(k * (i - (2 * j - 1) * L / (2 * M))) for j in range(1, M + 1)) for i in range(L)
    ]
    assert values(kernel, params) == pytest.approx(expected, abs=1e-5)
    assert (kernel.describe(params, L)["k"], kernel.describe(params, L)["r"]) == pytest.approx((k, r), abs=1e-5)


@LAW
@given(st.lists(st.tuples(st.floats(0, 11), st.floats(0, 1)), min_size=1, max_size=4))
def test_steps_stand_where_they_are_put(pairs):
    positions, heights = sorted(p for p, _ in pairs), sorted((h for _, h in pairs), reverse=True)
    kernel = kernels.get("steps", steps=len(pairs), earliest_layer=0, gamma=5.0)
    params = kernel.initial(L, positions=positions, heights=heights)
    above = [1.0, *heights]
    expected = [
        1 - sum((above[j] - above[j + 1]) * sigm(5.0 * (i - position)) for j, position in enumerate(positions))
        for i in range(L)
    ]
    assert values(kernel, params) == pytest.approx(expected, abs=3e-4)
    meaning = kernel.describe(params, L)
    assert [meaning[f"position_{j + 1}"] for j in range(len(pairs))] == pytest.approx(positions, abs=1e-4)
    assert [meaning[f"height_{j + 1}"] for j in range(len(pairs))] == pytest.approx(heights, abs=1e-5)


def test_one_step_is_single():
    params = torch.tensor([0.3, -0.4], dtype=torch.float64)
    one = kernels.get("steps", steps=1)(params, L)
    torch.testing.assert_close(one, kernels.get("single")(params.flip(0), L), rtol=0, atol=1e-12)


@LAW
@given(st.lists(st.floats(0, 1), min_size=L, max_size=L))
def test_free_reaches_any_curve(curve):
    curve = sorted(curve, reverse=True)
    kernel = kernels.get("free", earliest_layer=0)
    assert values(kernel, kernel.initial(L, retention=curve)) == pytest.approx(curve, abs=2e-5)
    curve[0] = 1.0
    pinned = kernels.get("free")
    assert pinned.num_parameters(L) == L - 1
    assert values(pinned, pinned.initial(L, retention=curve)) == pytest.approx(curve, abs=2e-5)


def test_meaning_outside_of_the_range_is_named():
    for name, meaning in (
        ("single", {"r": 1.5}),
        ("single", {"k": 40.0}),
        ("linear", {"k": 0.5, "r": 0.5}),
        ("exponential", {"k": -0.1}),
        ("multi-step", {"k": 0.0}),
        ("steps", {"positions": [5.0, 3.0, 8.0]}),
        ("steps", {"heights": [0.5, 0.6, 0.1]}),
        ("steps", {"heights": [0.5]}),
        ("free", {"retention": [1.0, 0.5]}),
        ("free", {"retention": [1.0, 0.5, 0.6, *[0.1] * 9]}),
    ):
        with pytest.raises(InvalidInputError):
            kernels.get(name).initial(L, **meaning)
