"""Every command fails in one clear sentence, and says nothing of tracebacks."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import transformers as tf

MISSING = "there/is/no/such/model"


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


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("evaluate", MISSING), "neither a shipped one (tiny-qwen, tiny-llava, tiny-gemma) nor a folder"),
        (("evaluate", "tiny-qwen", "--tasks", "smelling"), "Unknown task 'smelling'"),
        (("evaluate", "tiny-qwen", "--split", "exam"), "Unknown split 'exam'"),
        (("info", MISSING), "No config could be read"),
        (("search", "tiny-qwen", "--budgets", "half"), "cannot be read. Give fractions such as 0.2,0.5,0.9"),
        (("export", MISSING), MISSING),
        (("sweep", "tiny-qwen", "--space", "nowhere"), "nowhere"),
        (("zoo", "train", "huge-qwen"), "Known models: tiny-gemma, tiny-llava, tiny-qwen"),
    ],
)
def test_bad_input_gets_a_sentence_and_a_non_zero_exit(arguments, sentence, tmp_path):
    options = () if arguments[0] in ("info", "zoo", "evaluate") else ("--out", tmp_path / "out" / "x")
    done = vispco(*arguments, *options)
    assert done.returncode == 1
    assert sentence in done.stderr + done.stdout
    assert "Traceback" not in done.stderr


def test_a_traceback_is_shown_only_when_asked_for():
    done = vispco("--debug", "info", MISSING)
    assert done.returncode == 1
    assert "Traceback" in done.stderr


def test_a_folder_that_cannot_be_written_is_told_before_any_work(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    done = vispco("evaluate", "tiny-qwen", "--out", blocked / "result.json")
    assert done.returncode == 1
    assert "Nothing can be written" in done.stderr


def test_info_reads_a_config_alone(config_file):
    done = vispco("info", config_file, "--visual", "1024", "--json")
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert (data["layers"], data["family"], data["kv_heads"]) == (36, "Qwen", 2)
    full = 36 * (1088 * (4 * 2048 * 2048 + 4 * 2048 * 256 + 6 * 2048 * 11008) + 4 * 1088**2 * 2048)
    assert data["flops"]["exact"]["100%"] == full
    assert data["flops"]["paper"]["100%"] == 36 * (24 * 1088 * 2048**2 + 4 * 1088**2 * 2048)
    assert data["kv_bytes"] == 36 * 1088 * 2 * 2 * 128 * 2


def test_info_refuses_a_model_without_eyes(tmp_path):
    tf.LlamaConfig(num_hidden_layers=1).save_pretrained(tmp_path)
    done = vispco("info", tmp_path)
    assert done.returncode == 1
    assert "without a vision tower" in done.stderr


def test_help_imports_no_torch():
    code = "import sys; from vispco.cli import main; sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_help_names_every_command():
    text = vispco("--help").stdout
    for command in ("evaluate", "export", "info", "search", "sweep", "zoo"):
        assert command in text


def test_the_version_is_the_packages():
    from vispco import __version__

    assert vispco("--version").stdout.strip() == f"vispco {__version__}"


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
    from vispco.cli.choice import schedule_from

    assert schedule_from(text, 4).retention == retention


@pytest.mark.parametrize("text", ["single:2", "single:a:b", "nowhere.json", "stages:", "withdraw:x", "single:9:0.5"])
def test_a_schedule_that_cannot_be_read_names_the_forms(text):
    from vispco.cli.choice import schedule_from
    from vispco.errors import InvalidInputError

    with pytest.raises(InvalidInputError):
        schedule_from(text, 4)
