"""`SearchSpec`: one description of a search, the same for everyone who runs it."""

import json
from dataclasses import replace

import pytest
import torch

from search.random_batches import zoo_model
from vispco import cost as costs
from vispco import kernels, scorers
from vispco.compare.searches import Calibration
from vispco.compare.searches import get as get_search
from vispco.core.errors import InvalidInputError, UnknownNameError
from vispco.data import dataset
from vispco.evaluation.evaluator import TaskEvaluator
from vispco.search.gradient.static import DescentSettings
from vispco.search.gradient.training_settings import TrainingSettings
from vispco.search.modes import SearchRun, run_mode
from vispco.search.run_search import search
from vispco.search.search_spec import Effort, SearchSpec

SMALL = Effort(batch_size=2, descent=DescentSettings(starts=1, outer=1, explore=4))


class Prelude(scorers.Scorer):
    """Chooses before the language model."""

    name = "prelude"
    needs_attention = False


def test_it_survives_json_with_keys_of_a_newer_version():
    effort = Effort(training=TrainingSettings(gamma=(1.0, 3.0)), predictor={"width": 8})
    spec = SearchSpec.of(
        "sparsevlm@2", "single", mode="static", budgets=(0.3, 0.5), preset="gemma", effort=effort, seed=3
    )
    data = json.loads(json.dumps({**spec.to_dict(), "colour": "blue"}))
    data["effort"]["descent"]["colour"] = "blue"
    assert SearchSpec.from_dict(data) == spec


def test_it_names_a_cost_or_carries_one():
    priced = costs.get("paper", zoo_model()[0].config)
    spec = SearchSpec.of(cost=priced)
    assert SearchSpec.from_dict(json.loads(json.dumps(spec.to_dict()))) == spec


def test_defaults_follow_from_mode_chain_and_model():
    assert SearchSpec.of(mode="static").solver == "projection"
    assert SearchSpec.of().solver == "table"
    assert SearchSpec.of(Prelude()).kernel.earliest_layer == 0
    model, _ = zoo_model()
    assert SearchSpec.of(kernel="linear").for_model(model.config).row is not None
    assert SearchSpec.of(preset="text").for_model(model.config).row.alpha == 2
    assert SearchSpec.of(kernel=kernels.get("free")).kernel.name == "free"


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"mode": "magic"}, "mode='magic' was given"),
        ({"mode": "static", "solver": "table"}, "Mode 'static' has projection, lagrangian"),
        ({"budgets": ()}, "No budgets"),
        ({"budgets": (1.5,)}, "above 0, up to 1"),
    ],
)
def test_what_cannot_be_searched_is_refused_when_it_is_written_down(wrong, sentence):
    with pytest.raises(InvalidInputError, match=sentence):
        SearchSpec.of(**wrong)
    with pytest.raises(UnknownNameError):
        SearchSpec.of(cost="gold")


def test_the_gradient_follows_the_solver():
    model, _ = zoo_model()
    for solver, even in (("projection", True), ("lagrangian", False)):
        assert SearchSpec.of(mode="static", solver=solver).for_model(model.config).relaxation().even is even


@pytest.mark.parametrize("name", ["vispco-static", "vispco-paper", "vispco-halving"])
def test_a_comparison_searches_exactly_as_the_search_does(name, monkeypatch):
    """Same gradient, same shape, same bill."""
    model, processor = zoo_model()
    samples = dataset("calibration", limit=1)[:4]
    told = []
    prepare = SearchRun.prepare.__func__

    def remember(cls, *args, **options):
        told.append(prepare(cls, *args, **options))
        return told[-1]

    monkeypatch.setattr(SearchRun, "prepare", classmethod(remember))
    rival = get_search(name)
    result = rival.search(Calibration(TaskEvaluator(model, processor, samples, "fastv")), 0.6, effort=SMALL)
    search(
        model,
        processor,
        samples,
        kernel=rival.kernel,
        mode=rival.mode,
        solver=rival.solver,
        budgets=[0.6],
        effort=SMALL,
    )
    compared, searched = told
    assert replace(compared.spec, cost="exact") == searched.spec
    assert compared.objective.relaxation.even is searched.objective.relaxation.even is (name == "vispco-static")
    assert compared.objective.spent == searched.objective.spent
    again = run_mode(SearchRun.prepare(model, processor, samples, searched.spec))
    assert result.provenance["params"] == again.found[0].params.tolist()


def test_the_batches_of_an_earlier_search_are_on_the_bill_and_change_nothing():
    model, processor = zoo_model()
    samples = dataset("calibration", limit=1)[:4]
    spec = SearchSpec.of("fastv", mode="static", solver="halving", budgets=(0.6,), effort=SMALL)
    first = SearchRun.prepare(model, processor, samples, spec)
    found = run_mode(first)
    again = SearchRun.prepare(model, processor, samples, spec, batches=first.batches)
    assert torch.equal(run_mode(again).found[0].params, found.found[0].params)
    assert again.objective.spent == first.objective.spent
    assert again.objective.spent.teacher > 0
