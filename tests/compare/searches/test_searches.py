"""Each search finds what an exhaustive loop over a small problem finds, within the budget, and is billed for it."""

import math

import numpy as np
import pytest

from compare.searches.synthetic_search import LAYERS, SyntheticEvaluator, holds, make_sizes
from vispco import cost
from vispco.compare.searches import Calibration, get
from vispco.compare.searches.bayesian import _sigmoid
from vispco.core.errors import InvalidInputError, UnknownNameError
from vispco.core.schedule import Schedule
from vispco.sweep import spaces
from vispco.sweep.spaces import RATIOS, CostRange

BUDGETED = ["vtw", "g-search", "p-sigmoid-bo", "random-7", "single-grid"]


@pytest.mark.parametrize("measure", ["accuracy", "kl"])
@pytest.mark.parametrize("name", BUDGETED)
def test_the_budget_holds_on_every_sample_and_the_bill_adds_up(name, measure):
    known = SyntheticEvaluator()
    found = get(name).search(Calibration(known, measure=measure), 0.5)
    sizes = known.sizes
    assert holds(found.deploy(sizes), sizes, 0.5)
    assert found.evaluations == len(known.calls)
    assert found.spent.measured == pytest.approx(sum(sizes.total_flops(s) for s in known.calls))
    assert found.spent.teacher == (sizes.total_flops(Schedule.full(LAYERS)) if measure == "kl" and known.calls else 0)


@pytest.mark.parametrize("name", BUDGETED)
def test_the_same_seed_gives_the_same_result(name):
    one, two = (get(name).search(SyntheticEvaluator(), 0.5) for _ in range(2))
    assert one.schedule == two.schedule
    assert one.provenance == two.provenance


@pytest.mark.parametrize("space", ["free", "stages"])
def test_random_n_is_the_best_of_its_draws_and_more_draws_only_add(space):
    known = SyntheticEvaluator()
    found = get("random-12", space=space, seed=5).search(known, 0.5)
    assert len(known.calls) == 12
    assert found.method == "random-12"
    assert known.quality(found.deploy(known.sizes)) == max(known.quality(s) for s in known.calls)
    assert all(known.sizes.fraction(s) > 0.48 for s in known.calls)
    fewer = SyntheticEvaluator()
    get("random-5", space=space, seed=5).search(fewer, 0.5)
    assert fewer.calls == known.calls[:5]
    other = SyntheticEvaluator()
    get("random-5", space=space, seed=6).search(other, 0.5)
    assert other.calls != fewer.calls


def test_random_n_comes_nearer_to_the_best_curve_with_n():
    found = [
        SyntheticEvaluator().quality(get(f"random-{n}").search(SyntheticEvaluator(), 0.5).deploy(make_sizes()))
        for n in (1, 6, 24)
    ]
    assert found == sorted(found)


@pytest.mark.parametrize("budget", [0.35, 0.5, 0.9])
def test_the_grid_finds_the_best_of_all_configurations_that_meet_the_budget(budget):
    known = SyntheticEvaluator()
    found = get("single-grid").search(known, budget)
    rivals = [Schedule.single(layer, keep, LAYERS) for layer in range(1, LAYERS) for keep in RATIOS]
    inside = [s for s in rivals if known.sizes.fraction(s) <= budget]
    assert len(known.calls) == len(inside) == found.provenance["configurations"]
    best = max(known.quality(known.sizes.fit(s, budget, lift=False)) for s in inside)
    assert known.quality(found.deploy(known.sizes)) == best
    assert found.schedule in inside


@pytest.mark.parametrize(("sampler", "trials"), [("tpe", 25), ("gp", 12)])
def test_bayesian_optimisation_comes_within_a_hair_of_the_best_sigmoid(sampler, trials):
    known, budget = SyntheticEvaluator(), 0.5
    search = get("p-sigmoid-bo", trials=trials, startup=8, sampler=sampler)
    found = search.search(known, budget)
    exhaustive = [
        known.quality(known.sizes.fit(_sigmoid(k, gamma, budget, known.sizes), budget))
        for k in np.linspace(0, LAYERS - 1, 9)
        for gamma in np.geomspace(0.1, 10, 5)
    ]
    assert known.quality(found.deploy(known.sizes)) >= max(exhaustive) - 0.02
    assert found.evaluations == len(known.calls) <= trials
    assert known.quality(found.deploy(known.sizes)) == max(known.quality(schedule) for schedule in known.calls)
    assert search.search(SyntheticEvaluator(), budget).schedule == found.schedule


def test_a_sigmoid_meets_the_budget_at_a_typical_size():
    sizes = make_sizes((12,), (64,))
    curve = _sigmoid(2.0, 1.0, 0.6, sizes)
    assert curve.retention[0] == 1
    exact = float(sizes.cost.fraction(curve.tensor(), cost.Workload(12, 64)))
    assert 0.6 - 1e-9 <= exact <= 0.6


def linear_greedy(known, tolerance, steps):
    """Layer by layer, the smallest of all harmless rates, tried one by one from the bottom."""
    unharmed = known(Schedule.full(LAYERS)).accuracy - tolerance
    r = [1.0] * LAYERS
    for layer in range(1, LAYERS):
        for rung in range(steps + 1):
            tried = [*r[:layer], *[rung / steps] * (LAYERS - layer)]
            if rung / steps <= r[layer] and known(Schedule(tuple(tried))).accuracy >= unharmed:
                r = tried
                break
    return Schedule(tuple(r))


@pytest.mark.parametrize("tolerance", [0.001, 0.02, 0.1, 0.3, 2.0])
def test_g_search_is_the_greedy_walk_that_tries_every_rate(tolerance):
    known = SyntheticEvaluator()
    found = get("g-search", tolerance=tolerance, steps=10).search(known)
    assert found.schedule == linear_greedy(SyntheticEvaluator(), tolerance, 10)
    assert found.budget is None
    assert len(known.calls) == found.evaluations <= 1 + (LAYERS - 1) * math.ceil(math.log2(11))


@pytest.mark.parametrize("budget", [0.35, 0.5, 0.8])
def test_g_search_tolerates_no_more_than_the_budget_needs(budget):
    known = SyntheticEvaluator()
    found = get("g-search", halvings=6).search(known, budget)
    assert found.provenance["met"]
    assert known.sizes.fraction(found.schedule) <= budget
    assert known.sizes.fraction(found.deploy(known.sizes)) > budget - 0.03
    less = get("g-search", tolerance=0.95 * found.provenance["tolerance"]).search(SyntheticEvaluator()).schedule
    if found.provenance["tolerance"] > 0.01:
        assert known.sizes.fraction(less) > budget


def test_a_tie_goes_to_the_cheaper_schedule():
    known = SyntheticEvaluator()
    known.weights = known.weights * 0
    found = get("single-grid").search(known, 0.5)
    assert found.schedule == Schedule.single(1, RATIOS[0], LAYERS)


def test_bad_settings_are_refused_by_name():
    with pytest.raises(UnknownNameError, match="random-N"):
        get("simulated-annealing")
    with pytest.raises(InvalidInputError, match="It takes: trials"):
        get("p-sigmoid-bo", draws=3)
    for name, settings in [
        ("random-0", {}),
        ("p-sigmoid-bo", {"trials": 0}),
        ("g-search", {"tolerance": 0.0}),
        ("single-grid", {"width": 0.0}),
        ("fitprune", {"tolerance": 1.0}),
    ]:
        with pytest.raises(InvalidInputError, match=r"were given|was given"):
            get(name, **settings)
    with pytest.raises(UnknownNameError):
        get("p-sigmoid-bo", sampler="annealing")
    with pytest.raises(UnknownNameError, match="measure"):
        Calibration(SyntheticEvaluator(), measure="speed")


@pytest.mark.parametrize("name", ["random-3", "single-grid", "p-sigmoid-bo", "fitprune"])
def test_a_search_that_needs_a_budget_says_so(name):
    with pytest.raises(InvalidInputError, match="needs a budget"):
        get(name).search(SyntheticEvaluator())
    with pytest.raises(InvalidInputError, match="floor"):
        get(name).search(SyntheticEvaluator(), 0.01)


def test_random_n_draws_from_the_cost_range_of_a_sweep():
    known = SyntheticEvaluator()
    get("random-3").search(known, 0.5)
    cost_range = CostRange(spaces.get("free", LAYERS), 0.45, 0.5, known.sizes.fraction)
    drawn = cost_range.space.schedule(cost_range.draw(np.random.default_rng((0, 1))))
    assert known.calls[1] == known.sizes.fit(drawn, 0.5)


def test_kl_of_an_evaluator_that_has_none_is_refused_with_advice():
    class Bare:
        sizes = make_sizes()

        def __call__(self, schedule):
            raise AssertionError

    with pytest.raises(InvalidInputError, match="TaskEvaluator"):
        get("vtw", start=1).search(Bare())
