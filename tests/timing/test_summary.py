"""The arithmetic of the table: medians, quantiles and paired_speedup ratios."""

import pytest

from vispco.timing.timing import paired_speedup, summarize


def test_a_summary_is_in_milliseconds():
    assert summarize([0.003, 0.001, 0.002]) == {"p50": pytest.approx(2.0), "p95": pytest.approx(2.9)}


def test_ratios_are_taken_round_by_round():
    """A machine that slows down tenfold in the middle does not change by how much one thing is faster than another."""
    assert paired_speedup([2.0, 2.0, 20.0], [1.0, 1.0, 10.0]) == 2.0
