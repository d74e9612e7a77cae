"""The withdrawal layer is the one that a loop over all layers finds."""

import pytest

from compare.searches.synthetic_search import LAYERS, SyntheticEvaluator, holds, make_sizes
from vispco.compare.searches import Calibration, SampleSizes, get
from vispco.core.errors import InvalidInputError
from vispco.core.schedule import Schedule


@pytest.mark.parametrize("eta", [0.0, 0.2, 0.5, 1.0, 5.0])
def test_the_scan_stops_at_the_first_layer_under_eta(eta):
    known = SyntheticEvaluator()
    found = get("vtw", eta=eta, start=1).search(known)
    kls = {K: SyntheticEvaluator().kl(Schedule.withdraw(K, LAYERS)) for K in range(1, LAYERS)}
    first = next((K for K, kl in kls.items() if kl <= eta), LAYERS)
    wanted = Schedule.full(LAYERS) if first == LAYERS else Schedule.withdraw(first, LAYERS)
    assert found.schedule == wanted
    assert found.provenance["layer"] == first
    assert found.evaluations == len(known.calls) == min(first, LAYERS - 1)
    assert found.deploy(known.sizes) == wanted


def test_the_scan_is_billed_for_the_reference_and_for_every_layer_tried():
    known = SyntheticEvaluator()
    found = get("vtw", eta=0.0, start=2).search(known)
    sizes = known.sizes
    assert found.spent.teacher == sizes.total_flops(Schedule.full(LAYERS))
    assert found.spent.measured == sum(sizes.total_flops(Schedule.withdraw(K, LAYERS)) for K in (2, 3, 4))
    assert found.seconds > 0


@pytest.mark.parametrize("budget", [0.35, 0.45, 0.6, 0.85, 1.0])
def test_with_a_budget_it_is_the_deepest_layer_that_meets_it_and_nothing_is_measured(budget):
    known = SyntheticEvaluator()
    found = get("vtw").search(known, budget)
    fitting = [K for K in range(1, LAYERS + 1) if known.sizes.fraction(_withdrawn(K)) <= budget]
    assert found.schedule == _withdrawn(max(fitting))
    assert found.provenance["layer"] == max(fitting)
    assert holds(found.deploy(known.sizes), known.sizes, budget)
    assert not known.calls
    assert found.spent.total == 0


def _withdrawn(K):
    return Schedule.full(LAYERS) if K == LAYERS else Schedule.withdraw(K, LAYERS)


def test_a_start_outside_of_the_model_is_refused():
    with pytest.raises(InvalidInputError, match="from 1 to 4"):
        get("vtw", start=9).search(SyntheticEvaluator())
    with pytest.raises(InvalidInputError, match="eta"):
        get("vtw", eta=-1.0)


def test_on_a_model_only_the_first_samples_are_scanned_and_paid(calibration):
    found = get("vtw", eta=0.0, samples=2, start=8).search(calibration)
    sizes = SampleSizes.of(calibration).first(2)
    assert found.provenance["scanned"] == 2
    assert found.spent.teacher == sizes.total_flops(Schedule.full(10))
    assert found.evaluations == 2
    kls = found.provenance["kl"]
    few = Calibration(calibration).first(2)
    assert kls["9"] == few.evaluator.kl(Schedule.withdraw(9, 10))
    assert len(few.evaluator.samples) == 2


def test_sizes_without_a_pinned_first_layer_may_withdraw_at_once():
    known = SyntheticEvaluator(make_sizes(chain="random"))
    assert get("vtw").search(known, 0.2).provenance["layer"] == 0
