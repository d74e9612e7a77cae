"""Scorers by depth, with options, from every command that takes a scorer, and from a config file."""

from __future__ import annotations

import json

import pytest

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
    assert done.json["scorer"] == CHAIN
    assert done.json["fraction"]["exact"] < 0.8
