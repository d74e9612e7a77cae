"""Scores are the evaluator's own, and everything that is measured is on the bill once."""

import pytest

from compare.searches.conftest import built
from compare.searches.synthetic_search import LAYERS, SyntheticEvaluator
from vispco.compare.searches import Calibration
from vispco.core.errors import InvalidInputError
from vispco.core.schedule import Schedule
from vispco.data import dataset
from vispco.evaluation.evaluator import TaskEvaluator


def test_a_schedule_is_measured_and_billed_once():
    known = SyntheticEvaluator()
    calibration = Calibration(known)
    one, two = Schedule.single(1, 0.5, LAYERS), Schedule.single(2, 0.5, LAYERS)
    scores = calibration.scores([one, two, one])
    assert scores[0] == scores[2] == calibration.score(one) == SyntheticEvaluator()(one).accuracy
    assert known.calls == [one, two]
    assert calibration.bill.evaluations == 2
    assert calibration.bill.spent.total == known.sizes.total_flops(one) + known.sizes.total_flops(two)
    assert calibration.fresh().bill.evaluations == 0


def test_accuracy_and_kl_of_one_schedule_are_two_measurements():
    calibration = Calibration(SyntheticEvaluator())
    schedule = Schedule.single(1, 0.5, LAYERS)
    calibration.score(schedule)
    calibration.kl(schedule)
    assert calibration.bill.evaluations == 2


def test_on_a_model_many_schedules_score_as_each_does_alone():
    samples = dataset("calibration", "word,chart", limit=2)[:]

    def length(_, told):  # an untrained model answers nothing right
        return len(told) % 7 / 7

    evaluator = TaskEvaluator(*built("tiny-qwen"), samples, batch_size=2, max_new_tokens=2, score=length)
    calibration = Calibration(evaluator)
    curves = [Schedule.single(layer, 0.2, 10) for layer in (2, 7, 9)]
    fitted = [calibration.sizes.fit(curve, 0.9, lift=False) for curve in curves]
    assert calibration.scores(fitted) == [evaluator(schedule).accuracy for schedule in fitted]
    assert calibration.bill.spent.measured == sum(calibration.sizes.total_flops(schedule) for schedule in fitted)


def test_no_samples_are_refused():
    with pytest.raises(InvalidInputError, match="1 or more"):
        Calibration(SyntheticEvaluator()).first(0)
