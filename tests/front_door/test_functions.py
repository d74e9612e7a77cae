"""`vispco.evaluate` and `vispco.sweep`, on a shipped model, agree with the evaluator that they call."""

import pytest

import vispco
from vispco.data import dataset
from vispco.evaluation import TaskEvaluator


@pytest.fixture(scope="module")
def shipped():
    return vispco.load("tiny-llava")


@pytest.fixture(scope="module")
def samples():
    return list(dataset("test", "existence,attribute", limit=3))


@pytest.fixture(scope="module")
def num_layers(shipped):
    return shipped[0].config.text_config.num_hidden_layers


def test_evaluate_gives_what_the_evaluator_gives(shipped, samples, num_layers):
    schedule = vispco.Schedule.single(layer=2, keep=0.3, num_layers=num_layers)
    result = vispco.evaluate(*shipped, samples, pruner=vispco.Pruner("random", schedule), kl=True, details=True)
    expected = TaskEvaluator(*shipped, samples, "random", kl=True, details=True)(schedule)
    assert result.tasks == expected.tasks
    assert result.flops == expected.flops
    assert result.kl == pytest.approx(expected.kl)
    assert result.kl > 0
    assert result.details["predictions"] == expected.details["predictions"]


def test_evaluate_without_a_pruner_is_the_unpruned_model(shipped, samples):
    done = []
    result = vispco.evaluate(*shipped, samples, progress=lambda number, total: done.append((number, total)))
    assert result.fraction["exact"] == 1.0
    assert done[-1] == (len(samples), len(samples))


def test_evaluate_refuses_what_is_no_pruner(shipped, samples):
    with pytest.raises(vispco.InvalidInputError, match="Give a Pruner"):
        vispco.evaluate(*shipped, samples, pruner="fastv")


def test_sweep_gives_a_frontier_of_evaluated_schedules(shipped, samples, num_layers):
    seen = []
    frontier = vispco.sweep.sweep(*shipped, samples, scorer="random", strategy="random", trials=3, progress=seen.append)
    assert isinstance(frontier, vispco.Frontier)
    assert len(frontier) == 3
    assert seen
    for point in frontier.points:
        again = vispco.evaluate(*shipped, samples, pruner=vispco.Pruner("random", point.schedule))
        assert again.tasks == point.evaluation.tasks
        assert again.fraction == point.evaluation.fraction


def test_sweep_continues_in_its_directory_and_refuses_other_samples(shipped, samples, tmp_path):
    options = {"scorer": "random", "strategy": "random", "directory": tmp_path, "budget": (0.3, 0.7)}
    first = vispco.sweep.sweep(*shipped, samples, trials=2, **options)
    assert all(0.3 <= point.evaluation.fraction["exact"] <= 0.7 for point in first.points)
    more = vispco.sweep.sweep(*shipped, samples, trials=3, **options)
    assert {point.name for point in first.points} < {point.name for point in more.points}
    with pytest.raises(vispco.VispcoError):
        vispco.sweep.sweep(*shipped, samples[:2], trials=3, **options)
