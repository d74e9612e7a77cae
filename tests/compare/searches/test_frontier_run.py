"""A search at several budgets has one bill; one that can be stopped is stopped at it, and shows what it had found before."""

import pytest

from compare.searches.conftest import evaluator
from compare.searches.synthetic_search import LAYERS, ChainEvaluator, SyntheticEvaluator, holds, make_sizes
from vispco.compare.searches import Calibration, get, run_search
from vispco.core.errors import BudgetFloorError, InvalidInputError
from vispco.core.schedule import Schedule
from vispco.search.joint.joint_settings import JointSettings
from vispco.search.search_spec import Effort

BUDGETS = (0.35, 0.5, 0.8)
ANYTIME = ["random-6", "p-sigmoid-bo", "evolution"]


def passes(number, sizes=None):
    return number * (sizes or make_sizes()).total_flops(Schedule.full(LAYERS))


@pytest.mark.parametrize("name", ANYTIME)
def test_a_search_that_can_be_stopped_ends_with_the_measurement_that_spends_the_bill(name):
    known = SyntheticEvaluator()
    run = run_search(name, known, BUDGETS, bill=passes(10), checkpoints=[passes(2), passes(5)])
    assert passes(10) <= run.spent.total < passes(11)
    assert run.evaluations == len(known.calls)
    assert run.spent.total == pytest.approx(sum(known.sizes.total_flops(call) for call in known.calls))
    assert [each.flops for each in run.snapshots] == sorted(each.flops for each in run.snapshots)
    assert len(run.snapshots) == 3
    assert passes(2) <= run.snapshots[0].flops < passes(3)
    for budget, found in run.candidates.items():
        assert holds(found.deploy(known.sizes), known.sizes, budget)


@pytest.mark.parametrize("name", ANYTIME)
def test_what_was_found_before_is_never_better(name):
    run = run_search(name, SyntheticEvaluator(), BUDGETS, bill=passes(16), checkpoints=[passes(4), passes(8)])
    judge = SyntheticEvaluator()
    for budget in BUDGETS:
        found = [each.candidates[budget].deploy(judge.sizes) for each in run.snapshots if budget in each.candidates]
        quality = [judge.quality(schedule) for schedule in found]
        assert quality == sorted(quality)


@pytest.mark.parametrize("name", ANYTIME)
def test_at_one_budget_without_a_bill_it_is_the_search_alone(name):
    alone = get(name).search(SyntheticEvaluator(), 0.5)
    run = run_search(name, SyntheticEvaluator(), (0.5,))
    assert run.candidates[0.5].schedule == alone.schedule
    assert (run.spent, run.evaluations) == (alone.spent, alone.evaluations)


def test_a_search_that_cannot_be_stopped_runs_for_each_budget_and_pays_for_all():
    run = run_search("single-grid", SyntheticEvaluator(), BUDGETS, bill=1.0)
    each = [get("single-grid").search(SyntheticEvaluator(), budget) for budget in BUDGETS]
    assert run.spent.total == pytest.approx(sum(found.spent.total for found in each))
    assert run.evaluations == sum(found.evaluations for found in each)
    assert {b: found.schedule for b, found in run.candidates.items()} == dict(
        zip(BUDGETS, [found.schedule for found in each], strict=True)
    )
    assert len(run.snapshots) == 1


@pytest.mark.parametrize("name", ["random-2", "single-grid"])
def test_a_budget_under_the_floor_is_left_out_with_a_sentence(name):
    run = run_search(name, SyntheticEvaluator(), (0.05, 0.5))
    assert list(run.candidates) == [0.5]
    assert "below the floor" in run.under_floor[0.05]
    with pytest.raises(BudgetFloorError, match="can meet none of the budgets"):
        run_search(name, SyntheticEvaluator(), (0.01, 0.05))
    with pytest.raises(InvalidInputError, match="No budgets"):
        run_search(name, SyntheticEvaluator(), ())


def test_a_space_without_anything_new_ends_although_the_bill_is_not_spent():
    known = SyntheticEvaluator(make_sizes((12,), (3,)))
    run = run_search("random-2", known, (0.95,), bill=passes(10_000))
    assert len(known.calls) == run.evaluations < 50


def test_a_chain_of_its_own_is_on_the_same_bill_and_has_its_own_floor():
    known = ChainEvaluator()
    calibration = Calibration(known, measure="kl")
    before = calibration.under("divprune+fastv")
    assert before is calibration.under("divprune+fastv")
    assert before.sizes.earliest_layer == 0
    curve = Schedule.single(1, 0.5, LAYERS)
    first = calibration.kl(curve)
    assert before.kl(curve) == first
    assert calibration.bill.evaluations == 2
    assert calibration.bill.spent.teacher == passes(1, known.sizes), "one unpruned pass serves both"


def test_more_samples_bill_the_unpruned_pass_of_the_rest_alone(calibration):
    whole = Calibration(calibration, measure="kl")
    few = whole.first(2)
    curve = Schedule.single(2, 0.5, 10)
    few.kl(curve)
    whole.kl(curve)
    assert whole.bill.spent.teacher == pytest.approx(whole.sizes.total_flops(Schedule.full(10)))


def test_the_joint_search_learns_all_budgets_at_once_and_pays_once():
    learned, test = evaluator(), evaluator("test")
    settings = JointSettings(
        levels=(0.2, 0.5), ranking_levels=(0.2,), table_levels=(), rungs=(2, 2, 4), shapes=1, chains=1, neighbours=2
    )
    search = get("vispco")
    found = search.search_budgets(learned, (0.4, 0.7), effort=Effort(batch_size=2, joint=settings))
    assert search.learns_all_budgets
    assert get("vispco-predictor").learns_all_budgets
    assert not get("vispco-static").learns_all_budgets
    assert found[0.4].spent is found[0.7].spent
    assert found[0.4].spent.total > found[0.4].spent.teacher > 0
    for budget, candidate in found.items():
        assert test(candidate.deploy(None)).fraction["exact"] <= budget + 1e-9
        assert candidate.provenance["chain"]
