"""DOP: single drops are measured once for all budgets, and the sum of their losses is minimised as brute force minimises it."""

from itertools import combinations_with_replacement

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compare.searches.conftest import evaluator
from compare.searches.synthetic_search import LAYERS, SyntheticEvaluator, holds, make_sizes
from vispco.compare.searches import Calibration, get, run_search
from vispco.compare.searches.dop import _additive_frontier
from vispco.core.errors import InvalidInputError
from vispco.core.schedule import Schedule

BUDGETS = (0.35, 0.5, 0.8)


def naive_sum(losses, curve):
    """Each drop costs what the single drop to its share costs, less what the one to the share before costs."""
    total, before = 0.0, 0
    for layer, level in enumerate(curve):
        if level != before:
            total += losses[layer][level] - losses[layer][before]
        before = level
    return total


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**16), st.integers(2, 5), st.integers(1, 4), st.integers(0, 2), st.floats(0.0, 0.2))
def test_the_dynamic_programme_finds_what_brute_force_finds_at_every_limit(seed, num_layers, steps, first, choice):
    rng, first = np.random.default_rng(seed), min(first, num_layers - 1)
    losses = np.maximum.accumulate(rng.uniform(-0.3, 1.0, (num_layers, steps + 1)), axis=1)
    losses -= losses[:, :1]  # nothing is lost where nothing leaves
    weights = np.sort(rng.uniform(0, 1, (num_layers, steps + 1)), axis=1)[:, ::-1]

    def price(curves):
        falls = np.diff(curves, axis=1, prepend=0) > 0
        return weights[np.arange(num_layers), curves].sum(-1) + choice * falls.sum(-1)

    curves, sums, prices = _additive_frontier(losses, price, first)
    rests = combinations_with_replacement(range(steps + 1), num_layers - first)
    every = np.array(
        [(0,) * first + rest for rest in rests]
    )  # all that never grow: places among descending shares ascend
    wanted, cost = np.array([naive_sum(losses, curve) for curve in every]), price(every)
    assert [naive_sum(losses, curve) for curve in curves] == pytest.approx(sums.tolist())
    assert price(curves) == pytest.approx(prices)
    for limit in np.quantile(cost, [0.0, 0.1, 0.3, 0.5, 0.9, 1.0]) + 1e-9:
        assert sums[prices <= limit].min() == pytest.approx(wanted[cost <= limit].min())


def test_every_single_drop_is_measured_once_and_serves_all_budgets():
    known = SyntheticEvaluator()
    run = run_search(get("dop", shares=4), known, BUDGETS)
    wanted = {Schedule.single(layer, keep, LAYERS) for layer in range(1, LAYERS) for keep in (0.75, 0.5, 0.25, 0.0)}
    assert set(known.calls) == wanted
    assert len(known.calls) == run.evaluations == len(wanted)
    full = known.sizes.total_flops(Schedule.full(LAYERS))
    assert run.spent.total == pytest.approx(full + sum(map(known.sizes.total_flops, known.calls)))
    for budget, found in run.candidates.items():
        assert holds(found.deploy(known.sizes), known.sizes, budget)
        assert get("dop", shares=4).search(SyntheticEvaluator(), budget).schedule == found.schedule


class Additive(SyntheticEvaluator):
    """A model on which the losses of drops do add up: w_i (1 - r_i)^2 of the tokens that leave before layer i."""

    def kl(self, schedule):
        self.calls.append(schedule)
        r = np.array(schedule.retention)
        drops = np.diff((1 - r) ** 2, prepend=0.0)
        return float((np.array([0.0, 0.9, 0.5, 0.2, 0.1]) * drops).sum())


def test_where_losses_add_up_no_curve_of_the_same_shares_is_better():
    known = Additive(make_sizes((12,), (64,)))
    found = get("dop", shares=4).search(known, 0.6)
    every = (
        Schedule((1.0, *(1 - step / 4 for step in steps)))
        for steps in combinations_with_replacement(range(5), LAYERS - 1)
    )
    best = min(known.kl(curve) for curve in every if known.sizes.fraction(curve) <= 0.6)
    assert known.kl(found.schedule) == pytest.approx(best)
    assert found.provenance["foretold_kl"] == pytest.approx(best)


def test_a_budget_below_the_floor_is_left_out_and_the_others_are_found():
    run = run_search("dop", SyntheticEvaluator(), (0.01, 0.5))
    assert list(run.candidates) == [0.5]
    assert "below the floor" in run.under_floor[0.01]


def test_it_measures_the_kl_of_a_model_on_the_first_samples_whatever_the_comparison_measures():
    learned = evaluator()
    found = get("dop", samples=1, shares=2).search(Calibration(learned, measure="accuracy"), 0.5)
    assert found.provenance["looked_at"] == 1
    assert found.spent.teacher > 0
    assert found.evaluations == 2 * (learned.num_layers - 1)


def test_bad_settings_are_refused():
    for given_settings in ({"samples": 0}, {"shares": 0}):
        with pytest.raises(InvalidInputError, match="from 1"):
            get("dop", **given_settings)
