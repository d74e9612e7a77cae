"""Scorers by depth, with options, from every command that takes a scorer, and from a config file."""

from __future__ import annotations

import json

import pytest

from vispco.scorers import Chain

CHAIN = "random(seed=3)@0+fastv@3"
SAVED = {"scorers": [{"layer": 0, "name": "random", "seed": 3}, {"layer": 3, "name": "fastv"}]}
TASK = ("--tasks", "attribute")
SMALL = {
    "evaluate": ("--schedule", "stages:0=0.8,3=0.4", "--limit", "1"),
    "bench": ("--schedule", "stages:0=0.8,3=0.4", "--rounds", "1", "--new-tokens", "2", "--no-memory"),
    "search": ("--mode", "line", "--kernel", "single", "--budgets", "0.5", "--samples", "1", "--test", "1", "--examples", "0"),
    "sweep": ("--strategy", "random", "--trials", "1", "--limit", "1", "--workers", "0"),
    "compare searches": ("--methods", "vtw", "--samples", "1", "--test", "1"),
}  # fmt: skip
OUT = {"evaluate": "result.json", "bench": "bench.json"}


@pytest.mark.parametrize("command", sorted(SMALL))
def test_every_command_takes_a_chain(command, invoke, tmp_path):
    out = ("--out", tmp_path / OUT.get(command, "run"))
    done = invoke(*command.split(), "tiny-llava", "--scorer", CHAIN, *TASK, *SMALL[command], *out, "--json")
    assert done.code == 0, done.err
    if command == "search":
        assert json.loads((tmp_path / "run" / "config.json").read_text())["scorer"] == SAVED
    wrong = invoke(*command.split(), "tiny-llava", "--scorer", "fastv@0", *TASK, *SMALL[command], *out, "--json")
    assert wrong.code == 1
    assert "it can choose from layer 1 on" in wrong.err


def test_a_config_file_may_map_layers_to_scorers(invoke, tmp_path):
    path = tmp_path / "options.yaml"
    path.write_text(
        "scorer: {0: random(seed=3), 3: fastv}\nschedule: 'stages:0=0.8,3=0.4'\nlimit: 1\ntasks: attribute\n"
    )
    done = invoke("evaluate", "tiny-llava", "--config", path, "--json")
    assert done.code == 0, done.err
    assert done.json["scorer"] == str(Chain.of(CHAIN))
    assert done.json["fraction"]["exact"] < 0.8


@pytest.mark.parametrize("command", ["evaluate", "search", "sweep", "bench"])
def test_every_command_that_makes_a_pruner_takes_an_allocation(command, invoke, tmp_path):
    out = ("--out", tmp_path / OUT.get(command, "run"))
    done = invoke(
        *command.split(), "tiny-llava", "--scorer", "random(seed=3)", "--allocation", "equal", *TASK, *SMALL[command], *out, "--json"
    )  # fmt: skip
    assert done.code == 0, done.err
    if command == "search":
        saved = json.loads((tmp_path / "run" / "config.json").read_text())["scorer"]
        assert saved == {"allocation": "equal", "scorers": [{"layer": 0, "name": "random", "seed": 3}]}
        again = invoke("evaluate", "tiny-llava", "--pruner", tmp_path / "run", "--budget", "0.5", *TASK, "--limit", "1", "--json")  # fmt: skip
        assert again.code == 0, again.err
    if command == "evaluate":
        assert (done.json["allocation"], done.json["scorer"]) == ("equal", "equal:random(seed=3)")


@pytest.mark.parametrize("command", ["ask", "bench", "evaluate", "play", "search", "serve", "sweep"])
def test_an_unknown_allocation_is_told_before_a_model_is_loaded(command, invoke, tmp_path):
    given = {"ask": (tmp_path / "none.png", "what?")}.get(command, ())
    done = invoke(command, "tiny-llava", *given, "--allocation", "fair")
    assert done.code == 1
    assert all(name in done.err for name in ("score", "equal", "size"))
