"""`vispco train`: from a shipped model to a scorer that other commands take; what is wrong is told in a sentence."""

from __future__ import annotations

import json


def test_a_method_is_trained_resumed_and_used(invoke, tmp_path):
    out = tmp_path / "dynamic"
    command = ["train", "dynamic-llava", "tiny-llava", "--out", out, "--samples", 1, "--batch-size", 4]
    command += ["--options", "width=16,blocks=1", "--json", "--steps"]
    done = invoke(*command, 2)
    assert done.code == 0, done.err
    assert done.json["scorer"] == f"dynamic-llava(weights={out})"
    config = json.loads((out / "config.json").read_text())
    assert (config["settings"]["steps"], config["network"]["blocks"]) == (2, 1)
    assert len((out / "training/metrics.jsonl").read_text().splitlines()) == 2
    again = invoke(*command, 2)
    assert again.code == 0, again.err
    used = invoke(
        "evaluate", "tiny-llava", "--scorer", done.json["scorer"], "--schedule", "single:2:0.3", "--limit", 1, "--json"
    )
    assert used.code == 0, used.err
    assert used.json["fraction"]["exact"] < 0.7
    other = invoke(*command, 3)
    assert other.code == 1
    assert "other settings" in other.err
    assert "Traceback" not in other.err


def test_what_is_wrong_is_told_before_a_model_is_loaded(invoke, tmp_path):
    for arguments, told in (
        (("fastv", "tiny-llava"), "has nothing to train"),
        (("madtp", "tiny-llava", "--target", "1.5"), "Give a share above 0"),
        (("madtp", "tiny-llava", "--options", "entries"), "Write name=number"),
    ):
        done = invoke("train", *arguments, "--out", tmp_path / "run")
        assert done.code == 1
        assert told in done.err
        assert not (tmp_path / "run").exists()
