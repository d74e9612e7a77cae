"""A pruner is data: saved, read again, moved, exported and pushed, it does the same."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import vispco
from search.random_batches import zoo_model
from vispco import Pruner, PrunerSpec, Schedule, report
from vispco.core.errors import InvalidInputError, PrunerStateError, UnknownNameError, UnsupportedModelError, VispcoError
from vispco.core.registry import preserved
from vispco.data import dataset
from vispco.evaluation.encoded import encode
from vispco.pruner.planner_kinds import PLANNERS
from vispco.scorers import Chain

RUNS = Path(__file__).parent / "search_runs"  # on tiny-llava
LAYERS = 8
HALF = Schedule.single(3, 0.5, LAYERS)


@pytest.fixture(scope="module")
def llava():
    return vispco.load("tiny-llava")


@pytest.fixture(scope="module")
def batch(llava):
    return encode(*llava, dataset("test")[:3]).inputs


def counts(pruner, model, batch):
    with pruner(model), torch.no_grad():
        model(**batch)
        return pruner.token_counts(model)


def test_a_schedule_with_its_chain_survives_a_folder(tmp_path, llava, batch):
    made = Pruner("sparsevlm(recycle=true)@2+random(seed=4)@5", HALF)
    assert made.save_pretrained(tmp_path / "saved") == tmp_path / "saved"
    data = json.loads((tmp_path / "saved" / "pruner.json").read_text())
    assert data["vispco"] == data["versions"]["vispco"] == vispco.__version__
    read = Pruner.from_pretrained(tmp_path / "saved")
    assert read.spec == made.spec
    assert str(read.chain) == str(made.chain)
    assert read.schedule == HALF
    assert torch.equal(counts(read, llava[0], batch), counts(made, llava[0], batch))


def test_keys_of_a_newer_version_are_ignored_and_its_kinds_are_named():
    config = Pruner("fastv", HALF).spec
    newer = {**config.to_dict(), "vispco": "9.0", "colour": "blue", "planner": {**config.planner, "shade": 3}}
    assert PrunerSpec.from_dict(json.loads(json.dumps(newer))).schedule == HALF
    with pytest.raises(InvalidInputError, match=r"version 7, and this vispco reads version 1\. Use a newer vispco"):
        PrunerSpec.from_dict({**newer, "version": 7})
    unknown = replace(config, planner={"kind": "oracle"}, budget=0.5)
    with pytest.raises(UnknownNameError, match=r"oracle.*schedule"):
        unknown.resolve()


@pytest.mark.parametrize("kind", ["static", "predictor"])
def test_a_run_deploys_and_is_saved_anew(kind, tmp_path, llava, batch):
    first = Pruner.from_pretrained(RUNS / kind, budget=0.6)
    first.save_pretrained(tmp_path / kind)
    assert (tmp_path / kind / "predictor").is_dir() == (kind == "predictor")
    again = Pruner.from_pretrained(tmp_path / kind)
    assert again.spec.budget == 0.6
    expected = counts(first, llava[0], batch)
    assert bool((expected < expected[:, :1]).any())
    assert torch.equal(counts(again, llava[0], batch), expected)
    other = Pruner.from_pretrained(tmp_path / kind, budget="80%")
    assert torch.equal(
        counts(other, llava[0], batch), counts(Pruner.from_pretrained(RUNS / kind, budget=0.8), llava[0], batch)
    )


@pytest.mark.parametrize("kind", ["static", "predictor"])
def test_a_run_without_a_fingerprint_is_for_a_language_model_of_its_sizes(kind):
    """It has no fingerprint; its cost says how many layers of which width it was made for."""
    pruner = Pruner.from_pretrained(RUNS / kind, budget=0.6)
    assert pruner.spec.fingerprint is None
    other, _ = vispco.load("tiny-deep")
    with pytest.raises(UnsupportedModelError, match="num_layers 8 there, 36 here"):
        pruner.apply(other)


@pytest.mark.parametrize("kind", ["static", "predictor"])
def test_a_run_has_its_page(kind):
    assert len(report.build([RUNS / kind]).runs[0].points) == 2


def test_a_saved_pruner_needs_neither_its_run_nor_its_place(tmp_path, llava, batch):
    shutil.copytree(RUNS / "predictor", tmp_path / "run")
    pruner = Pruner.from_pretrained(tmp_path / "run", budget=0.5)
    expected = counts(pruner, llava[0], batch)
    pruner.save_pretrained(tmp_path / "saved")
    shutil.rmtree(tmp_path / "run")
    (tmp_path / "saved").rename(tmp_path / "moved")
    assert torch.equal(counts(Pruner.from_pretrained(tmp_path / "moved"), llava[0], batch), expected)


def test_export_keeps_the_scorer_and_its_file_is_a_pruner(tmp_path):
    config = PrunerSpec.load(RUNS / "static").static(0.5)
    config.save(tmp_path / "half.json")
    pruner = Pruner.from_pretrained(tmp_path / "half.json")
    assert pruner.chain.name == "fastv"
    assert pruner.schedule == config.schedule
    assert pruner.spec.model == "tiny-llava"
    assert Pruner.from_pretrained(tmp_path / "half.json", budget="50%").schedule == config.schedule
    with pytest.raises(InvalidInputError, match=r"one schedule, made for the budget 0\.5"):
        Pruner.from_pretrained(tmp_path / "half.json", budget=0.4)


def test_each_budget_may_have_its_own_chain():
    config = PrunerSpec.load(RUNS / "static")
    low, high = config.planner["shapes"]
    before = {**config.planner["kernel"], "earliest_layer": 0}
    low = {**low, "chain": {"name": "random"}, "kernel": before}
    spec = replace(config, planner={**config.planner, "shapes": [low, high]})
    chosen = {budget: spec.at(budget).resolve().chain.name for budget in (0.4, 0.5, 0.7, 0.9)}
    assert chosen == {0.4: "random", 0.5: "random", 0.7: "fastv", 0.9: "fastv"}


def test_another_kind_of_planner_is_one_function(llava, batch):
    with preserved():

        @PLANNERS.register(name="nothing-left")
        def build(spec, model):
            return spec.chain, Schedule.withdraw(4, len(model.model.language_model.layers))

        spec = PrunerSpec(Chain.of("fastv"), {"kind": "nothing-left"}, budget=0.3)
        assert int(counts(spec.resolve(llava[0]), llava[0], batch)[:, -1].max()) == 0


def test_code_of_the_user_is_not_data():
    with pytest.raises(PrunerStateError, match="which is code and cannot be saved"):
        Pruner("fastv", lambda layout, _: None).save_pretrained("nowhere")


@pytest.mark.parametrize(
    ("write", "sentence"),
    [
        ('{"retention": [1, 0.5]}', "is a schedule without a scorer"),
        ('{"format": "vispco-pruner"}', "has no 'chain' and no 'planner'"),
        ('{"format": "vispco-pruner", "chain": {"name": "fastv"}, "planner": 3}', "as the planner of a pruner"),
        ('{"format": "vispco-pruner", "chain": {"name": "nose"}, "planner": {"kind": "schedule"}}', "nose"),
        ("{", "pruner.json"),
    ],
)
def test_a_file_that_is_no_pruner_is_refused_by_name(tmp_path, write, sentence):
    (tmp_path / "pruner.json").write_text(write)
    for source in (tmp_path, tmp_path / "pruner.json"):
        if "retention" in write and source == tmp_path:
            continue
        with pytest.raises(InvalidInputError, match=r"pruner\.json") as told:
            Pruner.from_pretrained(source, budget=0.5)
        assert sentence in str(told.value)


def test_a_budget_is_asked_for_where_none_was_saved():
    with pytest.raises(InvalidInputError, match="works at any budget, and none was given"):
        Pruner.from_pretrained(RUNS / "static")
    with pytest.raises(InvalidInputError, match="The budget 'half' cannot be read"):
        Pruner.from_pretrained(RUNS / "static", budget="half")


def test_a_repository_on_the_hub_is_read_from_the_cache(tmp_path, monkeypatch):
    """The layout of the hub's cache, without a network."""
    from huggingface_hub import constants

    repository = tmp_path / "models--someone--pruner"
    Pruner.from_pretrained(RUNS / "predictor", budget=0.5).save_pretrained(repository / "snapshots" / ("a" * 40))
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("a" * 40)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.chdir(tmp_path)
    assert Pruner.from_pretrained("hub:someone/pruner").spec.kind == "predictor"
    with pytest.raises(InvalidInputError, match="could not be fetched from the hub"):
        Pruner.from_pretrained("hub:someone/else", budget=0.5)


def test_what_is_pushed_is_what_is_read(tmp_path, monkeypatch):
    """The upload itself needs a network: what it is given is looked at instead."""
    from huggingface_hub import HfApi

    asked = {}
    monkeypatch.setattr(HfApi, "create_repo", lambda _, name, **options: f"https://hub/{name}")

    def upload(_, *, repo_id, folder_path, commit_message):
        asked[repo_id] = commit_message
        shutil.copytree(folder_path, tmp_path / "pushed")

    monkeypatch.setattr(HfApi, "upload_folder", upload)
    pruner = Pruner.from_pretrained(RUNS / "predictor", budget=0.5)
    assert pruner.push_to_hub("someone/pruner") == "https://hub/someone/pruner"
    assert asked == {"someone/pruner": "Upload pruner"}
    assert Pruner.from_pretrained(tmp_path / "pushed").spec.budget == 0.5


def test_a_new_search_deploys_from_its_folder_and_from_what_is_saved(tmp_path):
    model, processor = zoo_model()
    samples = dataset("calibration", limit=1)[:2]
    vispco.search.search(
        model, processor, samples, kernel="single", mode="line", budgets=[0.5], directory=tmp_path / "run"
    )
    pruner = Pruner.from_pretrained(tmp_path / "run", budget=0.5)
    assert pruner.spec.cost["name"] == "exact"
    inputs = encode(model, processor, samples).inputs
    pruner.save_pretrained(tmp_path / "saved")
    assert torch.equal(counts(Pruner.from_pretrained(tmp_path / "saved"), model, inputs), counts(pruner, model, inputs))


CHOICES = (
    {"scorer": "divprune+fastv", "budget": 0.6},
    {"method": "sparsevlm:64"},
    {"method": "pyramiddrop", "budget": "60%", "allocation": "equal"},
    {"scorer": "random(seed=4)", "schedule": "single:3:0.5"},
    {"schedule": HALF, "scorer": "fastv"},
    {"pruner": str(RUNS / "static"), "budget": 0.6},
    {"pruner": str(RUNS / "predictor"), "budget": 0.6},
)


@pytest.mark.parametrize("choice", CHOICES, ids=str)
def test_whatever_a_user_names_prunes_the_same_after_a_file(choice, tmp_path, llava, batch):
    spec = PrunerSpec.choose(**choice)
    spec.save(tmp_path / "saved")
    again = PrunerSpec.load(tmp_path / "saved")
    assert again.kind == spec.kind
    expected = counts(spec.resolve(llava[0]), llava[0], batch)
    whole = counts(Pruner("fastv", Schedule.full(LAYERS)), llava[0], batch)
    assert bool((expected < whole).any())
    assert torch.equal(counts(again.resolve(llava[0]), llava[0], batch), expected)
    assert PrunerSpec.from_dict(json.loads(json.dumps(spec.to_dict()))) == spec


@pytest.mark.parametrize(
    ("choice", "sentence"),
    [
        ({"pruner": "runs/one", "method": "fastv"}, "Keep one of them"),
        ({"method": "fastv", "schedule": "single:2:0.5"}, "Keep one of them"),
        ({"pruner": "runs/one", "scorer": "fastv", "budget": 0.5}, "Keep one of them"),
        ({"schedule": "single:2:0.5", "budget": 0.5}, "--budget goes with"),
        ({"pruner": "runs/none"}, "without --budget"),
        ({"method": "pyramidrop"}, "pyramiddrop"),
        ({"scorer": "fastw"}, "fastv"),
        ({"budget": 1.5}, "above 0, up to 1"),
        ({"budget": 0.5, "allocation": "by-hand"}, "allocation"),
    ],
)
def test_what_contradicts_itself_or_is_unknown_is_refused(choice, sentence):
    with pytest.raises(VispcoError, match=sentence):
        PrunerSpec.choose(**choice)


@pytest.mark.parametrize("choice", [{"budget": 0.5}, {"method": "pyramiddrop"}, {"schedule": "single:2:0.5"}])
def test_what_depends_on_the_layers_asks_for_the_model(choice):
    with pytest.raises(InvalidInputError, match="with the model"):
        PrunerSpec.choose(**choice).resolve()
