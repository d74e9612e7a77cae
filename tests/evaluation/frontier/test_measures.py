"""Dominance and hypervolume agree with moocore on every input."""

from __future__ import annotations

import moocore
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vispco.evaluation import frontier as measures

# multiples of 1/16: many ties, and sums that are exact
GRID = st.integers(0, 16).map(lambda i: i / 16)
ANY = st.floats(0, 1, allow_subnormal=False)


def sets(least: int = 1):
    coarse = st.lists(st.tuples(GRID, GRID), min_size=least, max_size=25)
    fine = st.lists(st.tuples(ANY, ANY), min_size=least, max_size=25)
    return st.one_of(coarse, fine).map(lambda pairs: np.array(pairs, dtype=float).reshape(-1, 2))


@settings(deadline=None)
@given(sets())
def test_the_nondominated_set_is_moocores(values):
    expected = moocore.is_nondominated(values, maximise=[False, True], keep_weakly=True)
    assert measures._nondominated(values).tolist() == expected.tolist()


@settings(deadline=None)
@given(sets(), st.tuples(GRID, GRID))
def test_the_hypervolume_is_moocores(values, reference):
    expected = moocore.hypervolume(values, ref=list(reference), maximise=[False, True])
    assert measures.hypervolume(values, reference) == pytest.approx(expected, abs=1e-12)


@settings(deadline=None)
@given(sets())
def test_a_dominated_point_is_beaten_in_one_and_matched_in_both(values):
    """The definition, point by point: an oracle of its own."""
    for mine, kept in zip(values, measures._nondominated(values), strict=True):
        no_worse = (values[:, 0] <= mine[0]) & (values[:, 1] >= mine[1])
        better = (values[:, 0] < mine[0]) | (values[:, 1] > mine[1])
        assert kept == (not (no_worse & better).any())


def test_no_points_have_no_front_and_no_volume():
    nothing = np.empty((0, 2))
    assert measures._nondominated(nothing).tolist() == []
    assert measures.hypervolume(nothing, (1.0, 0.0)) == 0.0
