"""What a command does to a folder that already holds something: nothing is destroyed, and nothing is mixed."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace

import pytest

from faults.conftest import LINE, SMALL, contents
from search.random_batches import zoo_model
from search.test_run import SMALL as EFFORT
from vispco import models as zoo
from vispco.core.runs.run_record import RunFolderError, RunLock, check_files, read_record
from vispco.data import dataset
from vispco.search.gradient.trainer import PredictorTrainer
from vispco.search.gradient.training_settings import TrainingSettings
from vispco.search.run_search import search

SEARCH = ("search", "tiny-llava", *SMALL, *LINE)


@pytest.mark.parametrize("command", [("search", "tiny-llava"), ("sweep", "tiny-llava"), ("demo",)])
@pytest.mark.parametrize("more", [(), ("--overwrite",)])
def test_a_model_is_never_taken_for_the_folder_of_a_run(invoke, tmp_path, command, more):
    model = shutil.copytree(zoo.path("tiny-llava"), tmp_path / "model")
    before = contents(model)
    if command[0] == "sweep" and more:
        pytest.skip("a sweep overwrites nothing")
    done = invoke(*command, "--out", model, *more)
    assert done.code == 1
    assert "config.json" in done.err
    assert contents(model) == before


def test_a_search_of_a_model_is_not_put_into_the_model(invoke, tmp_path, monkeypatch):
    model = shutil.copytree(zoo.path("tiny-llava"), tmp_path / "mymodel")
    before = contents(model)
    monkeypatch.chdir(tmp_path)
    done = invoke("search", "mymodel", *SMALL, *LINE, "--out", "mymodel")
    assert done.code == 1
    assert "config.json" in done.err
    assert contents(model) == before


@pytest.mark.parametrize("place", [".", "..", "", " "])
@pytest.mark.parametrize("command", [("search", "tiny-llava"), ("sweep", "tiny-llava"), ("demo",)])
def test_the_current_folder_is_not_written_to(invoke, tmp_path, monkeypatch, command, place):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    done = invoke(*command, "--out", place)
    assert done.code == 1, done.err
    assert "Give" in done.err
    assert contents(tmp_path) == {}


def test_a_search_with_other_settings_into_the_same_folder_is_refused(invoke, run):
    before = contents(run)
    done = invoke("search", "tiny-llava", *SMALL, *LINE, "--scorer", "random", "--out", run)
    assert done.code == 1
    assert read_record(run).id in done.err
    assert "fastv" in done.err
    assert "random" in done.err
    assert "--overwrite" in done.err
    assert contents(run) == before


def test_overwrite_leaves_nothing_of_the_old_run_and_touches_nothing_else(invoke, run):
    first = read_record(run).id
    (run / "notes.txt").write_text("mine")
    done = invoke("search", "tiny-llava", *SMALL, *LINE, "--scorer", "random", "--out", run, "--overwrite", "--json")
    assert done.code == 0, done.err
    assert json.loads((run / "config.json").read_text())["scorer"]["name"] == "random"
    assert (run / "notes.txt").read_text() == "mine"
    assert check_files(run).id != first


def test_a_finished_training_is_not_taken_for_another_one(tmp_path):
    """The checkpoint of a gradient search with another scorer, other data or another model used to be its result."""
    model, processor = zoo_model()
    samples = dataset("calibration", limit=1)[:4]

    def train(**changed):
        asked = {"mode": "predictor", "solver": "lagrangian", "budgets": [0.5], "effort": EFFORT, **changed}
        return search(model, processor, asked.pop("samples", samples), directory=tmp_path / "one", **asked)

    train()
    before = contents(tmp_path)
    for changed in ({"scorer": "random"}, {"samples": samples[:3]}, {"seed": 1}):
        with pytest.raises(RunFolderError, match=r"holds another run"):
            train(**changed)
    weight = next(model.parameters())
    weight.data.add_(1.0)
    try:
        with pytest.raises(RunFolderError, match=r"model: "):
            train()
    finally:
        weight.data.sub_(1.0)
    assert contents(tmp_path) == before


def test_a_gradient_search_that_continues_counts_every_teacher_once(tmp_path, monkeypatch):
    model, processor = zoo_model()
    samples = dataset("calibration", limit=1)[:8]
    effort = replace(EFFORT, training=TrainingSettings(steps=4, inner=1, save_every=1))
    asked = {"mode": "predictor", "solver": "projection", "budgets": [0.5], "effort": effort}

    def spent(folder):
        return json.loads((folder / "config.json").read_text())["spent"]

    search(model, processor, samples, directory=tmp_path / "whole", **asked)
    steps, one_step = [], PredictorTrainer._one_step

    def stopping(self):
        steps.append(self.step)
        if len(steps) in (3, 5):
            raise KeyboardInterrupt
        return one_step(self)

    with monkeypatch.context() as patch:
        patch.setattr(PredictorTrainer, "_one_step", stopping)
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                search(model, processor, samples, directory=tmp_path / "parts", **asked)
    search(model, processor, samples, directory=tmp_path / "parts", **asked)
    assert spent(tmp_path / "parts") == pytest.approx(spent(tmp_path / "whole"))


def test_each_search_gets_a_new_folder_and_says_what_to_type_next(invoke, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    places = []
    for _ in range(2):
        done = invoke(*SEARCH)
        assert done.code == 0, done.err
        places.append(next(line.split()[0] for line in done.out.splitlines() if "is ready" in line))
    assert places == ["runs/tiny-llava-fastv-1", "runs/tiny-llava-fastv-2"]
    assert "vispco evaluate tiny-llava --pruner runs/tiny-llava-fastv-2 --budget 0.5" in done.out
    assert "vispco report runs/tiny-llava-fastv-2" in done.out


@pytest.mark.parametrize("name", ["config.json", "shapes.json", "frontier.json", "unpruned.json"])
def test_a_mixture_of_two_runs_is_refused_by_the_name_of_the_file(invoke, run, name):
    content = bytearray((run / name).read_bytes())
    content[len(content) // 2] ^= 1
    (run / name).write_bytes(content)
    for command in (("evaluate", "tiny-llava", "--pruner", run, "--budget", "0.5"), ("report", run), ("export", run)):
        done = invoke(*command)
        assert done.code == 1
        assert name in done.err
        assert "checksum" in done.err


def test_an_unfinished_run_is_not_deployed(invoke, run):
    replace(read_record(run), finished=False).write(run)
    done = invoke("evaluate", "tiny-llava", "--pruner", run, "--budget", "0.5")
    assert done.code == 1
    assert "is not finished" in done.err


def test_two_runs_at_once_are_refused(invoke, run):
    replace(read_record(run), finished=False).write(run)
    RunLock(run).write()
    done = invoke(*SEARCH, "--out", run)
    assert done.code == 1
    assert f"in use by process {os.getpid()}" in done.err


def test_a_killed_search_is_not_followed_by_another_one_in_its_folder(invoke, run):
    replace(read_record(run), finished=False).write(run)
    before = contents(run)
    done = invoke("search", "tiny-llava", *SMALL, *LINE, "--scorer", "random", "--out", run)
    assert done.code == 1
    assert "holds another run" in done.err
    assert contents(run) == before


def test_the_heading_of_an_evaluation_names_the_scorer_of_the_run(invoke, run, tmp_path):
    few = ("--tasks", "attribute", "--limit", "1")
    done = invoke("search", "tiny-llava", *SMALL, *LINE, "--scorer", "random", "--out", tmp_path / "two", "--json")
    assert done.code == 0, done.err
    done = invoke("evaluate", "tiny-llava", "--pruner", tmp_path / "two", "--budget", "0.5", *few)
    assert "random" in done.out
    assert "fastv" not in done.out
    done = invoke("evaluate", "tiny-llava", "--pruner", run, "--scorer", "random", "--budget", "0.5", *few)
    assert done.code == 1
    assert "has a scorer and a schedule of its own" in done.err


@pytest.mark.parametrize("option", ["--out", "--predictions"])
def test_a_result_that_cannot_be_written_is_told_before_the_work(invoke, tmp_path, option):
    place = tmp_path / "results.json"
    place.mkdir()
    done = invoke("evaluate", "tiny-qwen", option, place)
    assert done.code == 1
    assert "is a folder" in done.err


@pytest.mark.parametrize(
    "command",
    [
        ("evaluate", "tiny-qwen", "--out"),
        ("evaluate", "tiny-qwen", "--predictions"),
        ("report", "{run}", "--out"),
        ("export", "{run}", "--out"),
    ],
)
@pytest.mark.parametrize("name", ["config.json", "frontier.json", "notes.json"])
def test_a_file_of_a_run_or_of_somebody_else_is_not_replaced_by_a_result(invoke, run, command, name):
    (run / "notes.json").write_text('{"mine": "about vispco"}')
    before = contents(run)
    done = invoke(*(run if part == "{run}" else part for part in command), run / name)
    assert done.code == 1
    assert name in done.err
    assert contents(run) == before


def test_results_lie_beside_the_run_and_are_known_as_its_own(invoke, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for command in (("report", run), ("plot", run), ("export", run, "--budget", "0.4")):
        for _ in range(2):
            done = invoke(*command)
            assert done.code == 0, done.err
    assert {"report.html", "pruner-0.4.json"} < set(check_files(run).outputs)
    assert any(name.startswith("figures/") for name in check_files(run).outputs)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one"]
