"""Published methods by name, from every command that prunes, and what their labels mean."""

from __future__ import annotations

import json

import pytest

TASK = ("--tasks", "attribute")
SMALL = {
    "bench": ("--rounds", "1", "--new-tokens", "2", "--no-memory"),
    "search": ("--mode", "line", "--kernel", "single", "--budgets", "0.5", "--samples", "1", "--test", "1", "--examples", "0"),
    "sweep": ("--strategy", "random", "--trials", "1", "--limit", "1", "--workers", "0"),
}  # fmt: skip


def test_info_says_what_64_tokens_mean_without_a_model(invoke):
    done = invoke("info", "--methods", "--json")
    assert done.code == 0, done.err
    inputs = {(row["method"], row["setting"]): row["mean_inputs"] for row in done.json["methods"]}
    assert inputs["priortr", "64"] / inputs["divprune", "64"] == pytest.approx(1.75)
    assert inputs["sparsevlm", "192"] == 206.5
    assert inputs["sparsevlm-rank", "pope"] is None
    shown = invoke("info", "--methods").out
    assert "206.5" in shown
    assert "by sample" in shown
    assert "--methods, which needs none" in invoke("info").err


@pytest.mark.parametrize("budget", [None, 0.7])
def test_evaluate_runs_a_method_as_published_or_at_a_budget(budget, invoke):
    at = () if budget is None else ("--budget", budget)
    done = invoke("evaluate", "tiny-llava", "--method", "pyramiddrop", *at, *TASK, "--limit", "1", "--json")
    assert done.code == 0, done.err
    assert (done.json["method"], done.json["scorer"], done.json["budget"]) == ("pyramiddrop", "pyramiddrop@1", budget)
    assert done.json["fraction"]["exact"] <= (budget or 0.99)


@pytest.mark.parametrize("command", sorted(SMALL))
def test_other_commands_take_a_method(command, invoke, tmp_path):
    out = ("--out", tmp_path / ("bench.json" if command == "bench" else "run"))
    named = ("--method", "himap", "--method", "v2drop@0.7") if command == "bench" else ("--method", "himap")
    done = invoke(command, "tiny-llava", *named, *TASK, *SMALL[command], *out, "--json")
    assert done.code == 0, done.err
    if command == "search":
        kept = json.loads((tmp_path / "run" / "config.json").read_text())["scorer"]["scorers"]
        assert [(part["name"], part["rows"]) for part in kept] == [("himap", "text"), ("himap", "visual")]
    if command == "bench":
        rows = {row["configuration"]: row["flops"] for row in done.json["rows"]}
        assert rows["v2drop@0.7"] <= 0.7
        assert rows["himap"] < 1


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (("--method", "pyramidrop"), "pyramiddrop"),
        (("--method", "sparsevlm:65"), "64"),
        (("--method", "fastv", "--schedule", "single:2:0.5"), "Keep one of them"),
        (("--method", "fastv", "--budget", "1.5"), "above 0, up to 1"),
        (("--budget", "0.5"), "--pruner or --method"),
    ],
)
def test_what_cannot_be_is_told_in_a_sentence(given, told, invoke):
    done = invoke("evaluate", "tiny-llava", *given, *TASK, "--limit", "1")
    assert done.code == 1
    assert told in done.err


@pytest.mark.parametrize("name", ["methods.csv", "methods.tex"])
def test_a_table_of_somebody_else_is_not_replaced(invoke, tmp_path, name):
    (tmp_path / name).write_text("mine")
    done = invoke("compare", "methods", "tiny-llava", "--methods", "fastv", "--out", tmp_path)
    assert done.code == 1
    assert name in done.err
    assert (tmp_path / name).read_text() == "mine"
