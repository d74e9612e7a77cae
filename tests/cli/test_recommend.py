"""`vispco recommend`: from a target to one answer, and the search that it makes is not made twice."""

from __future__ import annotations

import pytest

import vispco
from vispco.core.errors import InvalidInputError
from vispco.data import dataset
from vispco.pruner.pruner_spec import PrunerSpec
from vispco.report.recommendation import recommend


@pytest.fixture(scope="module")
def loaded():
    return vispco.load("tiny-llava")


@pytest.fixture(scope="module")
def samples():
    return dataset("test", "counting,word", limit=6)


def test_a_budget_is_answered_with_loss_saving_and_where_it_fails(loaded, samples):
    found = recommend(*loaded, samples, PrunerSpec.usual("tiny-llava"), budget="0.2")
    assert found.budget == 0.2
    assert found.fraction <= 0.2
    assert found.low <= found.loss <= found.high
    assert found.loss == pytest.approx(100 * (found.unpruned - found.pruned))
    assert found.worst_task[0] in ("counting", "word")
    assert found.worst_task[1] >= found.loss - 1e-9
    wrong = {each["id"] for each in found.worst_items}
    assert wrong <= {sample.id for sample in samples}
    told = "\n".join(found.lines("tiny-llava", "runs/one"))
    assert "vispco serve tiny-llava --pruner runs/one --budget 0.2" in told
    assert "Pruner.from_pretrained" in told
    assert "--for vllm" in told


def test_the_smallest_budget_within_the_loss_is_chosen(loaded, samples):
    spec = PrunerSpec.usual("tiny-llava")
    found = recommend(*loaded, samples, spec, loss=100, searched=[0.7, 0.3])
    assert found.budget == 0.3
    generous = recommend(*loaded, samples, spec, loss=0, searched=[0.15, 1.0])
    assert generous.budget == 1.0 or generous.loss <= 0
    assert generous.unmet is None


def test_one_target_is_needed(loaded, samples):
    with pytest.raises(InvalidInputError, match="one target"):
        recommend(*loaded, samples, PrunerSpec.usual("tiny-llava"))


def test_the_command_asks_for_a_target_before_it_searches(invoke):
    done = invoke("recommend", "tiny-llava")
    assert done.code != 0
    assert "--loss" in done.err
