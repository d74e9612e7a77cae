import json
import pickle
import shutil

import pytest

from vispco import Schedule
from vispco.core.errors import InvalidInputError, UnknownNameError, VispcoError
from vispco.evaluation import EvaluatorSpec
from vispco.models.model_spec import ModelSpec
from vispco_zoo.export import save_model

from .conftest import built


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    save_model("tiny-llava", built("tiny-llava")[0], path)
    return str(path)


def test_it_travels_and_builds_the_same_evaluator(folder):
    spec = EvaluatorSpec(model=folder, scorer={"name": "random", "seed": 3}, tasks="reading", limit=1, details=True)
    sent = pickle.loads(pickle.dumps(spec))  # noqa: S301
    assert sent == spec
    first, second = spec.build(), sent()
    assert [sample.id for sample in first.samples] == [f"test/{task}/0/0" for task in ("word", "chart", "table")]
    assert first.chain.scorers[0].seed == 3
    schedule = Schedule.single(2, 0.5, 8)
    assert first(schedule).details == second(schedule).details


def test_it_is_json_and_comes_back(folder):
    spec = EvaluatorSpec(model=folder, tasks=("word", "chart"))
    assert EvaluatorSpec.from_dict(json.loads(json.dumps(spec.to_dict())) | {"added later": 1}) == spec
    with pytest.raises(InvalidInputError, match="model"):
        EvaluatorSpec.from_dict({"tasks": "all"})


def test_the_fingerprint_holds_what_the_results_depend_on():
    spec = EvaluatorSpec(model="tiny-qwen")
    for name, value in {"batch_size": 8, "share": 0, "details": True}.items():
        assert EvaluatorSpec(model="tiny-qwen", **{name: value}).fingerprint() == spec.fingerprint()
    others = {"scorer": {"name": "random"}, "tasks": "word", "limit": 4, "seed": 1, "kl": True}
    for name, value in others.items():
        assert EvaluatorSpec(model="tiny-qwen", **{name: value}).fingerprint() != spec.fingerprint()
    assert EvaluatorSpec(model=ModelSpec("tiny-qwen", device="cuda")).fingerprint() == spec.fingerprint()
    assert EvaluatorSpec(model=ModelSpec("tiny-qwen", dtype="bfloat16")).fingerprint() != spec.fingerprint()
    json.dumps(spec.fingerprint())


def test_a_model_trained_again_in_the_same_folder_is_another_model(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "model")
    before = EvaluatorSpec(model=str(copy)).fingerprint()
    assert before["weights"] == EvaluatorSpec(model=folder).fingerprint()["weights"]
    weights = copy / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    assert EvaluatorSpec(model=str(copy)).fingerprint() != before
    assert EvaluatorSpec(model="owner/on-the-hub").fingerprint()["weights"] is None


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"model": "no/such/model-anywhere"}, VispcoError, "tiny-qwen"),
        ({"tasks": "cooking"}, UnknownNameError, "Known tasks"),
        ({"split": "exam"}, UnknownNameError, "Known splits"),
        ({"limit": 0}, InvalidInputError, "limit is 0"),
        ({"scorer": {"name": "best"}}, UnknownNameError, "Known scorers"),
        ({"model": {"name": "tiny-qwen", "dtype": "int8"}}, InvalidInputError, "float32"),
    ],
)
def test_bad_settings_are_refused_in_words(folder, options, error, message):
    with pytest.raises(error, match=message):
        EvaluatorSpec(**({"model": folder, "limit": 1} | options)).build()
