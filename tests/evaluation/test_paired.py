"""Paired differences against brute force and scipy."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import stats

from vispco.core.errors import InvalidInputError
from vispco.evaluation.paired import _mcnemar, paired_difference


@pytest.mark.parametrize(("better", "worse"), [(0, 0), (1, 0), (5, 0), (0, 6), (3, 4), (9, 2), (40, 20)])
def test_mcnemar_is_the_exact_binomial_test(better, worse):
    expected = stats.binomtest(better, better + worse).pvalue if better + worse else 1.0
    assert _mcnemar(better, worse) == pytest.approx(expected)
    if better + worse <= 10:  # all ways in which coins may fall
        coins = list(product((0, 1), repeat=better + worse))
        far = abs(2 * better - (better + worse))
        assert _mcnemar(better, worse) == pytest.approx(
            sum(abs(2 * sum(c) - len(c)) >= far for c in coins) / len(coins)
        )


def test_the_interval_is_that_of_all_resamples_of_a_small_set():
    own, other = {"a": [1, 1, 0, 1], "b": [1, 0, 0]}, {"a": [0, 1, 0, 0], "b": [1, 1, 0]}
    gaps = [np.subtract(own[task], other[task]) for task in own]
    of_a, of_b = ([np.mean(draw) for draw in product(each, repeat=len(each))] for each in gaps)
    exact = np.quantile([(a + b) / 2 for a in of_a for b in of_b], [0.025, 0.975])
    found = paired_difference(own, other, draws=100_000)
    assert (found.low, found.high) == pytest.approx(tuple(exact), abs=0.01)
    assert found.difference == pytest.approx((0.5 - 1 / 3) / 2)
    assert (found.better, found.worse, found.items) == (2, 1, 7)
    assert found.within_noise
    assert "within noise" in found.sentence


def test_a_large_difference_is_more_than_noise_and_none_is_noise():
    other = {"a": [0.0] * 20, "b": [1.0] * 20}
    found = paired_difference({"a": [1.0] * 18 + [0.0] * 2, "b": [1.0] * 20}, other)
    assert not found.within_noise
    assert found.low > 0
    same = paired_difference(other, other)
    assert (same.difference, same.low, same.high, same.p) == (0, 0, 0, 1)
    assert same.within_noise
    assert paired_difference(other, other, seed=1) == same


def test_few_items_are_noise_even_where_all_of_them_agree():
    assert paired_difference({"a": [1.0] * 4}, {"a": [0.0] * 4}).within_noise  # p = 1/8


def test_other_items_are_refused():
    with pytest.raises(InvalidInputError, match="same items"):
        paired_difference({"a": [1.0]}, {"a": [1.0, 0.0]})
