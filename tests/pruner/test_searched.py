"""The pruners that are shipped with the models: the first answer of a user is that of a search."""

from __future__ import annotations

import warnings

import pytest

import vispco
from vispco.data import dataset
from vispco.evaluation.evaluator import TaskEvaluator
from vispco.models.shipped import ONE_OF_EACH_CLASS
from vispco.pruner.model_fingerprint import OtherWeightsWarning
from vispco.pruner.pruner_spec import SEARCHED, PrunerSpec
from vispco.pruner.pruning_options import PrunerOptions


@pytest.mark.parametrize("name", ONE_OF_EACH_CLASS)
def test_a_searched_pruner_is_the_default_of_a_shipped_model_and_fits_its_weights(name):
    spec = PrunerOptions().spec(name)
    assert spec.title == f"searched for {name} at 50%"
    model, _ = vispco.load(name)
    with warnings.catch_warnings():
        warnings.simplefilter("error", OtherWeightsWarning)
        spec.resolve(model).check(model)


def test_the_default_answers_more_rightly_than_fastv():
    model, processor = vispco.load("tiny-llava")
    evaluator = TaskEvaluator(model, processor, dataset("test", limit=16), "fastv")
    for budget, gain in ((0.5, 0.0), (0.3, 0.05)):
        found = (PrunerSpec.usual("tiny-llava", budget), PrunerSpec.choose(budget=budget))
        searched, fastv = (evaluator(spec.resolve(model)) for spec in found)
        assert searched.fraction["exact"] <= budget
        assert searched.accuracy > fastv.accuracy + gain


def test_another_model_is_pruned_without_the_question_and_that_is_said():
    told: list[str] = []
    spec = PrunerOptions(budget="0.4", allocation="equal").spec("tiny-deep", told.append)
    assert (str(spec.chain), spec.budget, spec.allocation) == ("divprune", 0.4, "equal")
    assert len(told) == 1
    assert "vispco search tiny-deep" in told[0]
    assert PrunerOptions(method="fastv").spec("tiny-deep", told.append).title == "fastv at 50%"
    assert len(told) == 1


def test_they_are_small():
    assert sum(path.stat().st_size for path in SEARCHED.rglob("*") if path.is_file()) < 2.5e6
