"""Every command fails in one clear sentence, and says nothing of tracebacks."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import transformers as tf

from cli.test_config import COMMANDS, SERVERS


def vispco(*arguments, **environment):
    """Run the command as a person does."""
    return subprocess.run(
        [sys.executable, "-m", "vispco.cli.main", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "COLUMNS": "200", **environment},
    )


@pytest.fixture(scope="module")
def config_file(tmp_path_factory):
    """The config of Qwen2.5-VL-3B, as the hub has it, and nothing else."""
    text = {
        "hidden_size": 2048,
        "intermediate_size": 11008,
        "num_hidden_layers": 36,
        "num_attention_heads": 16,
        "num_key_value_heads": 2,
        "vocab_size": 151936,
    }
    folder = tmp_path_factory.mktemp("config")
    tf.Qwen2_5_VLConfig(text_config=text, vision_config={}, dtype="bfloat16").save_pretrained(folder)
    return folder / "config.json"


def test_a_sentence_goes_to_stderr_with_a_non_zero_exit_code():
    done = vispco("search", "tiny-qwen", "--budgets", "half")
    assert done.returncode == 1
    assert "cannot be read. Give a fraction of the unpruned FLOPs (0.5 or 50%)" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_traceback_is_shown_only_when_asked_for():
    done = vispco("--debug", "search", "tiny-qwen", "--budgets", "half")
    assert done.returncode == 1
    assert "Traceback" in done.stderr


def test_info_reads_a_config_alone(config_file, invoke):
    done = invoke("info", config_file, "--visual", "1024", "--json")
    assert done.code == 0, done.err
    data = done.json
    assert (data["layers"], data["family"], data["kv_heads"]) == (36, "Qwen", 2)
    full = 36 * (1088 * (4 * 2048 * 2048 + 4 * 2048 * 256 + 6 * 2048 * 11008) + 4 * 1088**2 * 2048)
    assert data["flops"]["exact"]["100%"] == full
    assert data["flops"]["paper"]["100%"] == 36 * (24 * 1088 * 2048**2 + 4 * 1088**2 * 2048)
    assert data["kv_bytes"] == 36 * 1088 * 2 * 2 * 128 * 2


def test_info_refuses_a_model_without_eyes(tmp_path, invoke):
    tf.LlamaConfig(num_hidden_layers=1).save_pretrained(tmp_path)
    done = invoke("info", tmp_path)
    assert done.code == 1
    assert "without a vision tower" in done.err


def test_help_imports_neither_torch_nor_anything_slow():
    slow = ("torch", "transformers", "optuna", "matplotlib", "numpy", "scipy", "PIL", "yaml")
    code = f"import sys; from vispco.cli import main\ntry: main.app(['--help'])\nexcept SystemExit: pass\nsys.exit(','.join(m for m in {slow} if m in sys.modules) or 0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("command", "registry"),
    [("search", "scorers"), ("search", "kernels"), ("search", "costs"), ("compare searches", "searches"),
     ("evaluate", "metrics"), ("evaluate", "benchmarks"), ("demo", "scorers"), ("sweep", "scorers")],
)  # fmt: skip
def test_help_names_what_is_registered_now(command, registry, invoke, monkeypatch):
    from vispco.cli import names

    known, all_names = names.names(registry), names.names
    assert len(known) > 2
    monkeypatch.setattr(names, "names", lambda kind: [*all_names(kind), f"brand-new-{kind}"])
    monkeypatch.setenv("COLUMNS", "1000")
    shown = invoke(*command.split(), "--help").out
    assert all(name in shown for name in (*known, f"brand-new-{registry}"))


def test_help_names_every_command(invoke):
    text = invoke("--help").out
    for command in COMMANDS:
        assert f" {command.split()[0]} " in text


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_has_help_with_an_example_and_prints_json(command, invoke):
    done = invoke(*command.split(), "--help")
    assert done.code == 0
    assert f"vispco {command}" in done.out
    assert "Example" in done.out
    assert ("--json" in done.out) is (command not in SERVERS)
    assert "--config" in done.out


@pytest.mark.parametrize(("words", "expected"), [("vispco swe", "sweep"), ("vispco bench --pru", "--pruner")])
def test_completion_knows_commands_and_options(words, expected):
    asked = {"_VISPCO_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    code = "from vispco.cli.main import app; app(prog_name='vispco')"
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env={**os.environ, **asked}
    )
    assert told.stdout.split() == [expected]


def test_a_wrong_option_is_a_usage_error(invoke):
    assert invoke("info", "tiny-qwen", "--colour", "blue").code == 2


def test_the_version_is_the_packages(invoke):
    from vispco import __version__

    assert invoke("--version").out.strip() == f"vispco {__version__}"


@pytest.mark.parametrize(
    ("text", "retention"),
    [
        ("full", (1.0, 1.0, 1.0, 1.0)),
        ("single:2:0.5", (1.0, 1.0, 0.5, 0.5)),
        ("withdraw:3", (1.0, 1.0, 1.0, 0.0)),
        ("stages:1=0.5,3=0.1", (1.0, 0.5, 0.5, 0.1)),
    ],
)
def test_schedules_can_be_typed(text, retention):
    from vispco.pruner.planner_kinds import read_schedule

    assert read_schedule(text, 4).retention == retention


@pytest.mark.parametrize("text", ["single:2", "single:a:b", "nowhere.json", "stages:", "withdraw:x", "single:9:0.5"])
def test_a_schedule_that_cannot_be_read_names_the_forms(text):
    from vispco.core.errors import InvalidInputError
    from vispco.pruner.planner_kinds import read_schedule

    with pytest.raises(InvalidInputError):
        read_schedule(text, 4)
