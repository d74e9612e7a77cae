"""vispco inside the real lmms-eval, where that is installed: its scores are those of `vispco evaluate`."""

import importlib.metadata
import importlib.util
import io
import tomllib

import pytest

from project.sources import ROOT
from vispco import models as zoo
from vispco.data import dataset
from vispco.evaluation.evaluator import TaskEvaluator
from vispco.pruner.pruner_spec import PrunerSpec

needs_lmms_eval = pytest.mark.skipif(
    importlib.util.find_spec("lmms_eval") is None, reason="lmms-eval is not installed (docs/anywhere.md says how)"
)
TASK = """
task: drawn
dataset_path: parquet
dataset_kwargs:
  data_files:
    test: {data}
test_split: test
output_type: generate_until
doc_to_visual: !function functions.doc_to_visual
doc_to_text: !function functions.doc_to_text
doc_to_target: answer
process_results: !function functions.process_results
generation_kwargs:
  max_new_tokens: 8
  temperature: 0
metric_list:
  - metric: accuracy
    aggregation: mean
    higher_is_better: true
"""
FUNCTIONS = """
def doc_to_visual(doc):
    return [doc["image"].convert("RGB")]


def doc_to_text(doc, lmms_eval_specific_kwargs=None):
    return doc["question"]


def process_results(doc, results):
    return {"accuracy": float(results[0].strip() == doc["answer"])}
"""


@pytest.fixture(scope="module")
def samples():
    return list(dataset("test", "all", limit=8))


@pytest.fixture(scope="module")
def task_folder(samples, tmp_path_factory):
    import datasets

    folder = tmp_path_factory.mktemp("tasks")
    rows = {"question": [s.question for s in samples], "answer": [s.answer for s in samples], "image": []}
    for sample in samples:
        buffer = io.BytesIO()
        sample.images[0].save(buffer, "PNG")
        rows["image"].append({"bytes": buffer.getvalue(), "path": None})
    kinds = {"question": datasets.Value("string"), "answer": datasets.Value("string"), "image": datasets.Image()}
    datasets.Dataset.from_dict(rows, datasets.Features(kinds)).to_parquet(folder / "drawn.parquet")
    (folder / "drawn.yaml").write_text(TASK.format(data=folder / "drawn.parquet"))
    (folder / "functions.py").write_text(FUNCTIONS)
    return folder


def run(folder, model, arguments, **more):
    """(accuracy, answers by document) of lmms-eval's own evaluator."""
    from lmms_eval.evaluator import simple_evaluate
    from lmms_eval.tasks import TaskManager

    manager = TaskManager(include_path=str(folder), include_defaults=False)
    found = simple_evaluate(
        model=model, model_args=arguments, tasks=["drawn"], task_manager=manager, log_samples=True, bootstrap_iters=0,
        **{"batch_size": 4, "device": "cpu", **more},
    )  # fmt: skip
    answers = {each["doc_id"]: each["filtered_resps"][0] for each in found["samples"]["drawn"]}
    return found["results"]["drawn"]["accuracy,none"], [answers[number] for number in sorted(answers)]


def expected(model, samples, **choice):
    import vispco

    loaded, processor = vispco.load(model)
    pruner = PrunerSpec.choose(**choice).resolve(loaded) if choice else None
    told = TaskEvaluator(loaded, processor, samples, "fastv", max_new_tokens=8, details=True, batch_size=4)(pruner)
    return [told.details["predictions"][sample.id] for sample in samples]


def test_the_entry_point_names_what_is_there():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["lmms_eval.models"] == {
        "vispco": "vispco.serving.harness.lmms_eval_manifest:manifest"
    }


@needs_lmms_eval
@pytest.mark.parametrize("budget", [None, 0.4])
def test_answers_in_lmms_eval_are_those_of_an_evaluation(task_folder, samples, budget, registered):
    extra = "" if budget is None else f",budget={budget}"
    accuracy, answers = run(task_folder, "vispco", f"pretrained=tiny-qwen{extra}")
    own = expected("tiny-qwen", samples, **({} if budget is None else {"budget": budget}))
    assert answers == own
    assert accuracy == pytest.approx(sum(a == s.answer for a, s in zip(own, samples, strict=True)) / len(samples))


@needs_lmms_eval
def test_a_model_of_lmms_eval_is_pruned_in_place(task_folder, samples, registered):
    from lmms_eval.models import get_model

    folder = zoo.path("tiny-llava")
    made = get_model("vispco").create_from_arg_string(
        f"base=llava_hf,pretrained={folder},device_map=cpu,budget=0.4", {"device": "cpu", "batch_size": 1}
    )
    assert type(made).__module__.startswith("lmms_eval.")
    from vispco.engine import engine_on
    from vispco.families import family_of

    assert engine_on(family_of(made.model).base(made.model)) is not None


@needs_lmms_eval
def test_the_endpoint_is_driven_by_the_openai_backend_of_lmms_eval(task_folder, samples, registered, monkeypatch):
    pytest.importorskip("uvicorn")
    from serving.conftest import Server

    server = Server()
    try:
        monkeypatch.setenv("OPENAI_API_BASE", f"{server.url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        _, answers = run(
            task_folder, "openai", f"model_version=tiny-qwen,base_url={server.url}/v1,api_key=none", batch_size=1
        )
    finally:
        server.process.terminate()
        server.process.wait(20)
    assert [answer.strip() for answer in answers] == expected("tiny-qwen", samples, budget=0.5)


@pytest.fixture
def registered():
    """The entry point, also where the package on the path was installed before it had one."""
    from lmms_eval.models import MODEL_REGISTRY_V2

    from vispco.serving.harness.lmms_eval_manifest import manifest

    names = {each.name for each in importlib.metadata.entry_points(group="lmms_eval.models")}
    if "vispco" not in names:
        MODEL_REGISTRY_V2.register_manifest(manifest(), overwrite=True)
