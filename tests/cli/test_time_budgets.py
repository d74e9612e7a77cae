"""Budgets of time where a user deploys: one meaning in every command, and a mark where one is not met."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch

import vispco
from vispco.core.errors import InvalidInputError
from vispco.cost import Dimensions, TimeProfile
from vispco.data import dataset
from vispco.evaluation.encoded import encode
from vispco.pruner.measured_planner import device_name
from vispco.pruner.pruner_spec import PrunerSpec
from vispco.timing.prediction import predict_batch

MODEL = "tiny-qwen"


@pytest.fixture(scope="module")
def loaded():
    return vispco.load(MODEL)


@pytest.fixture
def profile(loaded, tmp_path, monkeypatch):
    """A device on which a layer takes a hundredth of a millisecond for each token of a call."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    found = TimeProfile(
        dimensions=Dimensions.from_config(loaded[0].config), device=device_name(torch.device("cpu")), dtype="float32",
        batches=(1, 32), tokens=(1, 1000), layer_ms=((0.01, 10.0), (0.32, 320.0)), fixed_ms=(0.1, 0.1), drop_ms=(0.01, 0.01),
        tower_ms=(0.0, 0.0),
    )  # fmt: skip
    found.save()
    return found


@pytest.fixture
def picture(tmp_path):
    sample = max(dataset("test", limit=1), key=lambda each: each.area)
    sample.images[0].save(tmp_path / "picture.png")
    return tmp_path / "picture.png", sample.question


@torch.no_grad()
def test_time_is_that_of_the_first_token_with_the_vision_tower_inside(loaded, profile):
    model, processor = loaded
    encoded = encode(model, processor, dataset("test", limit=1)[:1])
    replace(profile, tower_ms=(0.05, 0.05)).save()
    tower = 0.05 * encoded.num_visual[0]
    whole = torch.tensor(encoded.num_visual)[:, None].expand(-1, model.config.get_text_config().num_hidden_layers)
    full = tower + predict_batch(profile.cost(1), whole, encoded.num_text, encoded.num_visual)
    for budget, limit in ((f"{0.8 * full}ms", 0.8 * full), ("0.7t", 0.7 * full)):
        pruner = PrunerSpec.choose(scorer="divprune", budget=budget).resolve(model)
        with pruner(model):
            model(**encoded.inputs)
            counts = pruner.token_counts(model)
        spent = tower + predict_batch(profile.cost(1), counts, encoded.num_text, encoded.num_visual)
        assert 0.85 * limit < spent <= limit
    replace(profile, tower_ms=()).save()
    with pytest.raises(InvalidInputError, match="measured without its vision tower, by an earlier version"):
        PrunerSpec.choose(scorer="divprune", budget="0.7t").resolve(model)


@pytest.mark.parametrize("how", [{"scorer": "divprune+fastv"}, {"method": "pyramiddrop"}, {"method": "visionzip"}])
@torch.no_grad()
def test_a_method_meets_milliseconds_without_a_search(loaded, profile, how):
    model, processor = loaded
    encoded = encode(model, processor, dataset("test", limit=1)[:4])
    cost = profile.cost(4)
    layers = model.config.get_text_config().num_hidden_layers
    whole = torch.tensor(encoded.num_visual)[:, None].expand(-1, layers)
    full = predict_batch(cost, whole, encoded.num_text, encoded.num_visual)
    for budget, limit in ((f"{0.6 * full}ms", 0.6 * full), ("0.7t", 0.7 * full)):
        pruner = PrunerSpec.choose(**how, budget=budget).resolve(model)
        with pruner(model):
            model(**encoded.inputs)
            counts = pruner.token_counts(model)
        spent = predict_batch(cost, counts, encoded.num_text, encoded.num_visual)
        assert 0.8 * limit < spent <= limit


def test_a_time_budget_is_one_plan_in_evaluate_and_bench(invoke, profile, tmp_path):
    given = ("--budget", "8ms", "--tasks", "counting,chart", "--json")
    evaluated = invoke("evaluate", MODEL, "--method", "pyramiddrop", "--limit", "3", *given).json
    assert evaluated["batch_size"] == 1
    bench = ("--samples", "3", "--rounds", "1", "--no-memory", "--new-tokens", "2", "--out", tmp_path / "bench.json")
    benched = invoke("bench", MODEL, "--method", "pyramiddrop@8ms", *bench, "--tasks", "counting,chart", "--json").json
    assert 0.2 < benched["rows"][1]["flops"] < 0.9
    assert benched["rows"][1]["flops"] == pytest.approx(evaluated["fraction"]["exact"])


def test_a_floor_above_the_budget_is_told_in_milliseconds_and_marked(invoke, profile, tmp_path):
    done = invoke("evaluate", MODEL, "--method", "fastv", "--budget", "0.2ms", "--limit", "1", "--json")
    assert "The budget is not met" not in done.out  # JSON
    assert "lies under the floor of" in done.json["unmet"]
    assert " ms" in done.json["unmet"]
    assert "not met" in invoke("evaluate", MODEL, "--method", "fastv", "--budget", "0.2ms", "--limit", "1").out
    bench = ("--samples", "1", "--rounds", "1", "--no-memory", "--new-tokens", "2", "--out", tmp_path / "bench.json")
    told = invoke("bench", MODEL, "--method", "fastv@0.2ms", "--method", "fastv@0.9", *bench).out
    assert "fastv@0.2ms *" in told
    assert "fastv@0.9 *" not in told
    rows = json.loads((tmp_path / "bench.json").read_text())["rows"]
    assert [row["unmet"] is None for row in rows] == [True, False, True]


def test_ask_takes_milliseconds_and_says_where_a_profile_is_missing(invoke, profile, picture, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = invoke("ask", MODEL, *picture, "--method", "fastv", "--budget", "6ms", "--rounds", "1", "--json").json
    assert found["budget"] == "6ms"
    assert 0.1 < found["pruned"]["fraction"] < 0.9
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "elsewhere"))
    missing = invoke("ask", MODEL, *picture, "--method", "fastv", "--budget", "6ms")
    assert missing.code != 0
    assert "vispco profile" in missing.err


def test_a_mean_without_a_search_is_refused_before_a_model_is_loaded(invoke, picture):
    done = invoke("ask", MODEL, *picture, "--method", "fastv", "--budget", "mean:0.3,max:0.5")
    assert done.code != 0
    assert "without --pruner" in done.err
