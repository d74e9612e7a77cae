"""Ctrl-C in the middle of any command: one sentence, exit code 130, nothing half-written; the same command goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from PIL import Image

from cli.invoking import sound
from cli.test_config import COMMANDS, SERVERS
from vispco.cli.main import INTERRUPTED, STOPPED, _interruption

# A job in the background is born deaf to Ctrl-C, and the suite may be one.
LISTENING = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from vispco.cli.main import run; run()"
)
SMALL = ("--tasks", "attribute")
KEEPING = ("demo", "search", "sweep", "compare", "zoo", "train", "paper", "recommend")  # what they have worked out
# Where each command is when Ctrl-C comes: in the middle of its work, after it has begun to write.
MIDST = {
    "demo": ("vispco.evaluation.evaluator.TaskEvaluator.many", ("--model", "tiny-llava", *SMALL, "--test", "2")),
    "search": ("vispco.search.run_search.run_mode", ("tiny-llava", *SMALL, "--samples", "2", "--test", "2")),
    "sweep": (
        "vispco.evaluation.evaluator.TaskEvaluator.many",
        ("tiny-llava", *SMALL, "--limit", "2", "--workers", "0", "--strategy", "random", "--trials", "2"),
    ),
    "evaluate": ("vispco.evaluation.evaluator.TaskEvaluator.many", ("tiny-llava", *SMALL, "--limit", "2")),
    "bench": ("vispco.timing.prefill.TokenClock.put", ("tiny-llava", *SMALL, "--no-memory")),
    "profile": ("vispco.timing.profiling.profile_model", ("tiny-llava", *SMALL)),
    "compare searches": (
        "vispco.evaluation.evaluator.TaskEvaluator.many",
        ("tiny-llava", *SMALL, "--methods", "random-2", "--samples", "2", "--test", "2"),
    ),
    "compare methods": (
        "vispco.evaluation.evaluator.TaskEvaluator.many",
        ("tiny-llava", *SMALL, "--methods", "fastv", "--samples", "2", "--test", "2"),
    ),
    "paper": ("vispco.report.paper.paper_run._seconds_per_item", ("tiny-llava", *SMALL)),
    "recommend": ("vispco.search.run_search.run_mode", ("tiny-llava", "--budget", "0.5", *SMALL, "--samples", "2")),
    "check": ("vispco.check.check_model.check_model", ("llava",)),
    "report": ("vispco.report.payload.Payload.to_dict", ("{run}",)),
    "plot": ("vispco.report.plots.style.canvas", ("{run}",)),
    "export": ("vispco.pruner.pruner_spec.PrunerSpec.load", ("{run}",)),
    "ask": ("vispco.serving.ask.compare", ("tiny-llava", "{picture}", "how many circles are there?")),
    "train": ("vispco.search.learned.train_scorer", ("dynamic-llava", "tiny-llava", *SMALL, "--samples", "2")),
    "info": ("vispco.timing.estimates.describe", ("tiny-llava",)),
    "zoo get": ("vispco.models.smol.get", ()),
    "zoo list": ("vispco.cli.zoo.fitted_table", ()),
    "zoo train": ("vispco_zoo.training.train", ("tiny-llava",)),
}


def stop(*_, **__):
    raise KeyboardInterrupt


def test_the_table_has_every_command():
    assert {*MIDST, *SERVERS} == set(COMMANDS)


@pytest.mark.parametrize("command", sorted(MIDST))
def test_ctrl_c_is_one_sentence_and_leaves_nothing_half_written(invoke, monkeypatch, tmp_path, command, run):
    target, arguments = MIDST[command]
    monkeypatch.setattr(target, stop)
    Image.new("RGB", (64, 64), "teal").save(tmp_path / "one.png")
    places = {"{run}": run, "{picture}": tmp_path / "one.png"}
    given = [places.get(argument, argument) for argument in arguments]
    name = {"export": "x.json", "ask": "x.png"}.get(command, "x")
    out = () if command in ("check", "info", "zoo list", "zoo get") else ("--out", tmp_path / "out" / name)
    done = invoke(*command.split(), *given, *out)
    assert done.code == INTERRUPTED, done.err
    assert done.err.splitlines()[-1] == f"error: {_interruption(command.split())}"
    assert ("Nothing was kept" in done.err) == (command.split()[0] not in KEEPING)
    assert "Traceback" not in done.err
    assert sound(tmp_path)


def test_a_demo_that_is_stopped_goes_on_with_the_same_command(tmp_path):
    """SIGINT to a real process while it sweeps; the second one does not search again."""
    out = tmp_path / "demo"
    command = [sys.executable, "-c", LISTENING, "demo", "--model", "tiny-llava", "--out", str(out), *SMALL]
    command += [
        "--samples",
        "4",
        "--test",
        "2",
        "--budgets",
        "0.5",
        "--timed",
        "0.5",
        "--trials",
        "12",
        "--rounds",
        "1",
    ]
    command += ["--batch-size", "1", "--examples", "1", "--threads", "1", "--mode", "line", "--kernel", "single"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    first = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    deadline = time.monotonic() + 300
    while not (out / "demo.json").exists() and first.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    first.send_signal(signal.SIGINT)
    told = first.communicate(timeout=120)
    assert first.returncode == INTERRUPTED, told
    assert told[1].splitlines()[-1] == f"error: {STOPPED}"
    assert "Traceback" not in told[1]
    assert sound(out)
    searched = (out / "frontier.json").stat().st_mtime_ns
    assert not (out / "report.html").exists()

    second = subprocess.run([*command, "--json"], capture_output=True, text=True, env=environment, check=False)
    assert second.returncode == 0, second.stderr
    found = json.loads(second.stdout)
    assert (out / "frontier.json").stat().st_mtime_ns == searched
    assert [row["budget"] for row in found["rows"]] == [0.5, 1.0]
    assert found["rows"][0]["ttft_ms"] > 0
    assert found["bytes"] == (out / "report.html").stat().st_size
    page = (out / "report.html").read_text()
    assert '"kind":"searched"' in page
    assert '"kind":"empirical"' in page
