"""Thirty questions of one's own, one JSON line each, go through evaluate, search, compare and ask."""

from __future__ import annotations

import json

import pytest

from vispco.data import dataset

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
    picture = mine.parent / "0.png"
    asked = invoke("ask", "tiny-llava", picture, "what color is it?", "--pruner", run, "--json")
    assert asked.code == 0, asked.err


def test_compare_takes_them(mine, invoke, tmp_path):
    done = invoke(
        *("compare", "searches", "tiny-llava", "--tasks", f"mine={mine}:exact", "--methods", "vtw"),
        *("--samples", "2", "--test", "4", "--out", tmp_path / "compared", "--json"),
    )
    assert done.code == 0, done.err
