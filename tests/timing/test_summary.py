"""The arithmetic of the table: quantiles and paired_speedup ratios."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vispco.timing.timing import paired_speedup, quantile, summarize

TIMES = st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=40)


@given(TIMES, st.floats(0, 1))
def test_a_quantile_is_numpys(times, share):
    assert quantile(sorted(times), share) == pytest.approx(np.quantile(times, share))


def test_a_summary_is_in_milliseconds():
    assert summarize([0.003, 0.001, 0.002]) == {"p50": pytest.approx(2.0), "p95": pytest.approx(2.9)}


def test_ratios_are_taken_round_by_round():
    """A machine that slows down tenfold in the middle does not change by how much one thing is faster than another."""
    assert paired_speedup([2.0, 2.0, 20.0], [1.0, 1.0, 10.0]) == 2.0
