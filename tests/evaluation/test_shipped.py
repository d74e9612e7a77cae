"""On the models that the package ships, where they are there: they see, and what is shared changes nothing."""

import pytest

from vispco import Schedule
from vispco import models as zoo
from vispco.data import dataset
from vispco.evaluation import EvaluatorSpec
from vispco_zoo.answers import accuracy


@pytest.fixture(params=zoo.names(), scope="module")
def evaluator(request):
    if not (zoo.path(request.param) / "card.json").exists():
        pytest.skip(f"{request.param} is not in this checkout")
    return EvaluatorSpec(model=request.param, limit=2, kl=True, details=True, share=0).build()


def test_accuracy_is_that_of_plain_generation_and_pruning_everything_hurts(evaluator):
    samples = list(dataset("test", limit=2))
    full, none = evaluator.many([None, Schedule.withdraw(1, evaluator.num_layers)])
    plain = accuracy(evaluator.model, evaluator.processor, samples)
    assert full.accuracy == pytest.approx(plain["average"])
    assert full.accuracy > none.accuracy
    assert full.kl == 0 < none.kl


def test_shared_and_independent_evaluations_agree(evaluator):
    layers = evaluator.num_layers
    subjects = [Schedule.single(k, 0.3, layers) for k in (1, layers // 2, layers - 1)]
    for one, two in zip(evaluator.many(subjects), map(evaluator, subjects), strict=True):
        assert one.to_dict() | {"seconds": 0} == two.to_dict() | {"seconds": 0}
