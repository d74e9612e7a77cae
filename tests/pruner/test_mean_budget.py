"""Budgets that are a mean: the mean is met, the cap holds, and an input is decided without a look at the others."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from vispco.pruner.mean_budget import KlCurves, solve_multiplier

LEVELS = np.array([0.1, 0.2, 0.2, 0.4])


def _estimates(samples=400, seed=0):
    generator = np.random.default_rng(seed)
    scale = generator.random((samples, 1)) * 4
    return scale * np.array([2.0, 1.0, 0.8, 0.1]) * (0.5 + generator.random((samples, 4)))


@settings(deadline=None, max_examples=25)
@given(mean=st.floats(0.2, 0.38), seed=st.integers(0, 20))
def test_the_price_meets_the_mean_from_below(mean, seed):
    floor = 0.05 + 0.05 * np.random.default_rng(seed).random(400)
    curves = KlCurves.of(_estimates(seed=seed), LEVELS, floor, 0.42)
    spent = curves.spend(solve_multiplier(curves, mean))
    assert float(spent.mean()) <= mean + 1e-9
    assert float(spent.mean()) >= mean - 1e-6
    assert float(spent.max()) <= 0.42


def test_a_curve_is_the_least_of_each_level_and_never_rises():
    estimate = np.array([[3.0, 1.0, 0.5, 0.7]])
    curves = KlCurves.of(estimate, LEVELS, np.zeros(1), 1.0)
    at = {round(float(b), 3): float(k) for b, k in zip(curves.levels, curves.kl[0], strict=True)}
    assert at[0.1] == pytest.approx(3.0)
    assert at[0.2] == pytest.approx(0.5)
    assert at[0.4] == pytest.approx(0.5)  # 0.7 was worse than what less money buys
    assert at[0.15] == pytest.approx((3.0 * 0.5) ** 0.5)  # the logarithm is linear


def test_a_decision_does_not_depend_on_the_other_inputs():
    estimate = _estimates(50)
    floor = np.linspace(0.01, 0.2, 50)
    together = KlCurves.of(estimate, LEVELS, floor, 0.4).spend(2.0)
    alone = [
        KlCurves.of(row[None], LEVELS, own[None], 0.4).spend(2.0) for row, own in zip(estimate, floor, strict=True)
    ]
    assert np.array_equal(together, np.concatenate(alone))
