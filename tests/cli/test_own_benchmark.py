"""Thirty questions, a scorer in one file and a model in a folder, all of one's own, go through every command."""

from __future__ import annotations

import json
import shutil

import pytest

from cli.test_plugin import SCORER
from vispco.core import plugins
from vispco.core.registry import preserved
from vispco.data import dataset
from vispco.evaluation.leaderboard import LeaderboardEntry
from vispco.models import shipped

NUMBER = 30


@pytest.fixture(scope="module")
def mine(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    lines = []
    for number, sample in enumerate(dataset("test", "attribute", limit=NUMBER, seed=5)):
        sample.image.save(folder / f"{number}.png")
        lines.append(json.dumps({"image": f"{number}.png", "question": sample.question, "answer": sample.answer}))
    path = folder / "mine.jsonl"
    path.write_text("\n".join(lines))
    return path


def test_evaluate_scores_them_by_the_metric_that_is_asked_for(mine, invoke):
    done = invoke(
        "evaluate", "tiny-llava", "--tasks", f"mine={mine}", "--scorer", "fastv", "--schedule", "single:2:0.5", "--json"
    )
    assert done.code == 0, done.err
    (task,) = done.json["tasks"]
    assert (task["task"], task["n"], done.json["metrics"]) == ("mine", NUMBER, {"mine": "answer"})
    assert task["accuracy"] > 0.5  # the questions are of a kind that the model was trained on
    named = invoke(
        "evaluate",
        "tiny-llava",
        "--tasks",
        f"mine={mine}:exact",
        "--scorer",
        "fastv",
        "--schedule",
        "single:2:0.5",
        "--json",
    )
    assert named.json["metrics"] == {"mine": "exact"}
    assert named.json["accuracy"] <= done.json["accuracy"]
    wrong = invoke("evaluate", "tiny-llava", "--tasks", f"mine={mine}:exakt", "--json")
    assert wrong.code != 0
    assert "exact" in wrong.err


def test_a_search_learns_from_half_of_them_and_reports_accuracy_on_others(mine, invoke, tmp_path):
    small = ("--mode", "line", "--kernel", "single", "--budgets", "0.5", "--samples", "4", "--examples", "0")
    run = tmp_path / "run"
    done = invoke("search", "tiny-llava", "--data", mine, *small, "--test", "20", "--out", run, "--json")
    assert done.code == 0, done.err
    (task,) = done.json["points"][0]["evaluation"]["tasks"]
    assert (task["task"], task["n"]) == ("mine", NUMBER // 2)
    config = json.loads((run / "config.json").read_text())
    assert config["tasks"]["files"] == {"mine": str(mine)}
    assert config["data"]["samples"] == 4


@pytest.fixture
def registries(monkeypatch):
    """What a plugin registers is forgotten."""
    monkeypatch.setattr(plugins, "_LOADED", {})
    with preserved():
        yield


@pytest.mark.usefixtures("registries")
def test_questions_scorer_and_model_of_ones_own_go_through_every_command(mine, invoke, tmp_path, monkeypatch):
    """A folder with a Qwen3-VL, as its authors save it: its own processor needs torchvision, ours does not."""
    monkeypatch.chdir(tmp_path)
    folder, plugin = shutil.copytree(shipped.path("tiny-qwen3"), tmp_path / "my-qwen3-vl"), tmp_path / "my_scorer.py"
    (folder / "card.json").unlink()  # nothing says any more that it was shipped
    plugin.write_text(SCORER)
    few, own = ("--samples", "2", "--test", "4"), ("--plugin", plugin)

    def run(*words):
        done = invoke(*words)
        assert done.code == 0, done.err
        return done

    chosen = ("--scorer", "own-norm", "--schedule", "single:2:0.9")
    found = run("evaluate", folder, "--tasks", f"mine={mine}:exact", *chosen, *own, "--json").json
    assert (found["tasks"][0]["task"], found["tasks"][0]["n"]) == ("mine", NUMBER)
    assert found["accuracy"] > 0.5  # the questions are of a kind that the model was trained on
    small = ("--scorer", "own-norm", "--mode", "line", "--kernel", "single", "--budgets", "0.5", "--examples", "1")
    run("search", folder, "--data", mine, *small, *few, *own, "--out", "run")
    names = ("--methods", "own-norm,fastv", "--budgets", "0.5", "--search", "none", "--compensations", "none")
    few_rounds = ("--draws", "0", "--rounds", "0")
    run("compare", "methods", folder, "--tasks", f"mine={mine}", *names, *few_rounds, *few, *own, "--out", "methods")
    page = run("report", "run", "methods", "--out", "page.html")
    assert "page.html" in page.out
    assert "own-norm" in (tmp_path / "page.html").read_text()
    asked = run(
        "ask", folder, mine.parent / "0.png", "what color is it?", "--pruner", "run", *own, "--rounds", "1", "--json"
    )
    assert asked.json["pruned"]["fraction"] <= 0.5
    assert [path.name for path in tmp_path.glob("*.png")] == ["0-survivors.png"]
    for entry in (LeaderboardEntry.load(tmp_path / name / "leaderboard.json") for name in ("run", "methods")):
        assert (entry.model, list(entry.tasks)) == ("my-qwen3-vl", ["mine"])
        assert str(tmp_path) not in json.dumps(dict(entry.options))  # no folder of this machine goes into a result
