"""Damaged data and wrong arguments are answered with a sentence, never with what Python says."""

from __future__ import annotations

import json

import pytest

from vispco import Pruner, Schedule, VispcoError
from vispco.compare.methods import MethodTable
from vispco.compare.searches.search_comparison import Comparison
from vispco.core.errors import InvalidInputError
from vispco.core.schedule import Schedule as PlainSchedule
from vispco.cost import Budget
from vispco.evaluation.frontier import Frontier
from vispco.evaluation.result import Evaluation
from vispco.pruner.model_fingerprint import ModelFingerprint
from vispco.pruner.pruner_spec import PrunerSpec
from vispco.pruner.search_files import FoundShape
from vispco.report.payload import Example

READERS = (
    *(Frontier.from_dict, Evaluation.from_dict, FoundShape.from_dict, PrunerSpec.from_dict, Example.from_dict),
    *(Comparison.from_dict, MethodTable.from_dict, PlainSchedule.from_dict, ModelFingerprint.from_dict),
)
WRONG = [
    *(None, True, 5, "text", [], {}, {"points": 5}, {"points": [1]}, {"retention": [10**400]}, {"retention": "x"}),
    *(
        {"format": "vispco-pruner", "chain": 3, "planner": []},
        {"format": "vispco-comparison", "rows": 7},
        {"format": "vispco-methods", "rows": [{"method": 1}]},
        {"params": "x"},
    ),
    {"tasks": [{"a": 1}]},
]


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.__self__.__name__)
@pytest.mark.parametrize("data", WRONG, ids=lambda data: json.dumps(data)[:30])
def test_data_of_another_shape_is_a_sentence(reader, data):
    with pytest.raises(VispcoError) as refused:
        reader(data)
    assert str(refused.value).endswith((".", "`", ")"))


@pytest.mark.parametrize("budget", [10**400, -(10**400), float("nan"), "half", None, [], True, 0, 1.5, "150%"])
def test_a_budget_that_is_none_is_a_sentence(budget):
    with pytest.raises(InvalidInputError, match="budget"):
        Budget.of(budget).fraction  # noqa: B018 - refused


@pytest.mark.parametrize("budget", ["0.5", "50%", 0.5])
def test_a_budget_may_be_written_as_a_person_writes_it(budget):
    assert Budget.of(budget).fraction == 0.5


@pytest.mark.parametrize("schedule", [[1.0] * 8, "single:2:0.5", 0.5, None, {"retention": [1.0]}])
def test_a_pruner_says_what_a_schedule_is(schedule):
    with pytest.raises(InvalidInputError, match="schedule"):
        Pruner("fastv", schedule)


@pytest.mark.parametrize("depth", [2000, 100_000])
def test_nested_files_are_a_sentence(tmp_path, depth):
    file = tmp_path / "deep.json"
    file.write_text("[" * depth + "]" * depth)
    for reader in (Schedule.load, Frontier.load, PrunerSpec.load):
        with pytest.raises(VispcoError):
            reader(file)


@pytest.mark.parametrize("name", ["deep.yaml", "deep.json"])
def test_nested_options_are_a_sentence(invoke, tmp_path, name):
    (tmp_path / name).write_text("[" * 20_000 + "]" * 20_000)
    done = invoke("info", "tiny-llava", "--config", tmp_path / name)
    assert done.code == 1
    assert name in done.err
    assert "--debug" not in done.err
    assert "RecursionError" not in done.err


def test_a_budget_as_text_is_understood_by_a_pruner(finished):
    assert Pruner.from_pretrained(finished, budget="0.5").spec.budget == "0.5"
