"""The guide to real models: its commands run to the end, and its estimates are what the cost model says now."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path

import pytest

from real.command import vispco
from real.files import FAMILIES

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "real-models.md"
HUB_ID = "Qwen/Qwen2.5-VL-3B-Instruct"
# The same commands, with less to do: few conversations, rows, configurations, tokens.
SMALLER = {
    "--downsample": "6",
    "--samples": "6",
    "--test": "1",
    "--limit": "1",
    "--workers": "0",
    "--batch-size": "8",
    "--strategy": "random",
}
MORE = {
    "search": ("--budgets", "0.8", "--max-new-tokens", "1", "--examples", "1", "--set", "descent.outer=1",
               "--set", "descent.explore=2", "--set", "training.steps=1", "--set", "batch_size=4"),
    "sweep": ("--trials", "2", "--max-new-tokens", "1"),
    "evaluate": ("--max-new-tokens", "2", "--json"),
}  # fmt: skip


def commands():
    """Every command of the page, in its order; one that accelerate starts is run by itself."""
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines() if line.strip()]
    words = [shlex.split(line) for line in lines]
    return [line[line.index("vispco.cli.main" if line[0] == "accelerate" else "vispco") + 1 :] for line in words]


def smaller(words, model):
    told = [str(model) if word == HUB_ID else word for word in words]
    for place, word in enumerate(told[:-1]):
        told[place + 1] = SMALLER.get(word, told[place + 1])
    return [*told, *MORE.get(words[0], ())]


def test_the_page_has_every_command_of_a_run():
    names = [words[0] for words in commands()]
    assert {"info", "evaluate", "search", "sweep", "report"} <= set(names)
    assert all(HUB_ID in words for words in commands() if words[0] != "report")


@pytest.mark.parametrize("family", FAMILIES)
def test_the_commands_of_the_page_run_to_the_end(family, models, data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("llava_instruct_150k.json", "train2017", "LMUData"):
        (tmp_path / name).symlink_to(data / name)
    for words in commands():
        done = vispco(*smaller(words, models[family]))
        assert done.code == 0, (words, done.err)
    run = tmp_path / "runs" / "qwen-3b"
    unpruned, half = (json.loads((run / name).read_text()) for name in ("unpruned.json", "half.json"))
    assert [task["task"] for task in unpruned["tasks"]] == [
        "aokvqa", "vizwiz", "seedbench", "mmbench", "mme", "chartqa", "ocrbench", "textvqa",
    ]  # fmt: skip
    assert unpruned["fraction"]["exact"] == 1.0 > half["fraction"]["exact"]
    config = json.loads((run / "fastv" / "config.json").read_text())
    assert config["data"]["skipped"]["reasons"] == {"broken image": 1}
    assert config["data"]["conversations"] <= 6
    assert set(config["tasks"]["files"]) == {task["task"] for task in unpruned["tasks"]}
    assert json.loads((run / "fastv" / "areas.json").read_text())["before"]
    assert (run / "fastv" / "predictor" / "config.json").is_file()
    page = (run / "report.html").read_text()
    assert "mmbench" in page


def test_the_estimates_of_the_page_are_those_of_the_cost_model(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    sys.modules.pop("estimates", None)
    import estimates

    assert PAGE.read_text(encoding="utf-8") == estimates.written(PAGE.read_text(encoding="utf-8"))
