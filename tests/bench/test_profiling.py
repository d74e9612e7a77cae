"""What a profile is fitted to: known parts are found again, and none is ever negative."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import nnls

from vispco.bench.profiling import fit_parts, fitted_schedules, nonnegative_weights

LAYERS = 10
SIZES, ROW = np.array([1, 50, 100, 400]), np.array([0.5, 1.0, 1.8, 9.0])


def tokens():
    """Of a prompt of 20 text and 200 visual tokens under the schedules of a fit, the unpruned one first."""
    pruned = [(schedule.counts([200]) + 20)[0].tolist() for schedule in fitted_schedules(LAYERS)]
    return np.array([[220] * LAYERS, *pruned])


@given(scale=st.floats(0.5, 2.0), fixed=st.floats(0.0, 20.0), drop=st.floats(0.0, 5.0))
def test_the_parts_that_made_the_times_are_found_again(scale, fixed, drop):
    drops = np.array([0, 1, 1, 2, 3])
    measured = scale * np.interp(tokens(), SIZES, ROW).sum(axis=-1) + fixed + drop * drops
    assert fit_parts(tokens(), measured, SIZES, ROW) == pytest.approx((scale, fixed, drop), abs=1e-6)


@given(st.lists(st.floats(0.1, 100.0), min_size=5, max_size=5))
def test_no_times_give_a_negative_part(measured):
    scale, fixed, drop = fit_parts(tokens(), np.array(measured), SIZES, ROW)
    assert scale > 0
    assert fixed >= 0
    assert drop >= 0


@given(st.integers(0, 10_000), st.integers(3, 8))
def test_weights_are_those_of_an_independent_solver(seed, runs):
    rng = np.random.default_rng(seed)
    columns, target = rng.normal(size=(runs, 3)), rng.normal(size=runs)
    assert nonnegative_weights(columns, target) == pytest.approx(nnls(columns, target)[0], abs=1e-8)


@pytest.mark.parametrize("layers", [1, 2, 3, 10, 36])
def test_schedules_of_a_fit_suit_any_depth(layers):
    for schedule in fitted_schedules(layers):
        assert len(schedule.retention) == layers
        assert schedule.retention[0] == 1.0
