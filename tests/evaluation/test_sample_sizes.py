"""A curve is brought within the budget on every sample, whatever their sizes."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from compare.searches.conftest import evaluator
from compare.searches.synthetic_search import LAYERS, holds, make_sizes
from vispco.core.errors import InvalidInputError
from vispco.core.schedule import Schedule
from vispco.evaluation.sample_sizes import SampleSizes

COUNTS = st.lists(st.tuples(st.integers(1, 60), st.integers(20, 300)), min_size=1, max_size=5)
CURVE = st.lists(st.floats(0, 1), min_size=LAYERS - 1, max_size=LAYERS - 1)


@given(COUNTS, CURVE, st.floats(0.05, 1.0), st.booleans(), st.sampled_from(["fastv", "fitprune", "aim", "random@1"]))
@settings(deadline=None, max_examples=60)
@pytest.mark.filterwarnings("ignore::vispco.cost.BudgetWarning")
def test_every_sample_meets_its_budget_or_its_floor(counts, curve, budget, lift, chain):
    sizes = make_sizes(*zip(*counts, strict=True), chain=chain)
    fitted = sizes.fit(Schedule((1.0, *sorted(curve, reverse=True))), budget, lift=lift)
    floor = sizes.fractions(Schedule.withdraw(1, LAYERS).counts(sizes.num_visual.tolist()))
    got = sizes.fractions(fitted.counts(sizes.num_visual.tolist()))
    assert bool((got <= floor.clamp_min(budget)).all())


def test_lifting_spends_what_is_left_and_cutting_alone_leaves_a_curve_that_fits_as_it_is():
    sizes, curve = make_sizes(), Schedule.single(2, 0.2, LAYERS)
    lifted, cut = sizes.fit(curve, 0.8), sizes.fit(curve, 0.8, lift=False)
    assert sizes.fraction(curve) < 0.7
    assert 0.78 < sizes.fraction(lifted) <= 0.8
    visual = sizes.num_visual.tolist()
    assert torch.equal(cut.counts(visual), curve.counts(visual))
    assert holds(sizes.fit(Schedule.full(LAYERS), 0.5, lift=False), sizes, 0.5)


def test_samples_that_are_alike_share_one_row():
    sizes = make_sizes((12, 12), (64, 64))
    assert not sizes.fit(Schedule.full(LAYERS), 0.5).per_sample
    assert make_sizes().fit(Schedule.full(LAYERS), 0.5).batch_size == 3


@pytest.mark.parametrize("budget", [0.0, -0.5, 1.5, float("nan")])
def test_what_is_no_fraction_is_refused(budget):
    with pytest.raises(InvalidInputError, match="fraction"):
        make_sizes().check_budget(budget)


def test_a_budget_below_the_floor_is_refused_and_the_floor_named():
    sizes = make_sizes()
    floor = sizes.fraction(Schedule.withdraw(1, LAYERS))
    with pytest.raises(InvalidInputError, match=f"{floor:.4g}"):
        sizes.check_budget(floor - 0.01)
    sizes.check_budget(floor)


def test_sizes_of_an_evaluator_stand_in_the_order_of_its_samples():
    calibration = evaluator()
    sizes = SampleSizes.of(calibration)
    for row, sample in enumerate(calibration.samples):
        encoded = calibration.store.encode([sample], answers=True)
        own = (sizes.num_text[row], sizes.num_visual[row], sizes.num_answer[row])
        assert tuple(int(n) for n in own) == (encoded.num_text[0], encoded.num_visual[0], encoded.answer_lengths[0])
    assert sizes.num_layers == calibration.num_layers
    assert sizes.earliest_layer == 1


def test_a_mean_fraction_is_what_the_evaluator_tells():
    calibration = evaluator()
    sizes = SampleSizes.of(calibration)
    schedule = sizes.fit(Schedule.single(3, 0.4, sizes.num_layers), 0.5)
    assert calibration(schedule).fraction["exact"] == pytest.approx(sizes.fraction(schedule))
