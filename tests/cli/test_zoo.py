import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from vispco.cli.zoo import app
from vispco.core.errors import InvalidInputError, UnknownNameError
from vispco.core.runs import files
from vispco.data.dataset import PER_TASK
from vispco.models import shipped
from vispco_zoo.export import publish
from vispco_zoo.recipe import RECIPES, Recipe


def test_train_makes_a_model_with_a_card_from_one_command(tmp_path, monkeypatch):
    short = Recipe(steps=6, warmup=4, warmup_pictures=1, pictures=1, questions=2)
    monkeypatch.setitem(RECIPES, "tiny-llava", short)
    monkeypatch.setitem(PER_TASK, "test", 1)
    out = tmp_path / "model"
    result = CliRunner().invoke(app, ["train", "tiny-llava", "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert "attribute" in result.output
    assert "100 %, after 0:" in result.output
    assert "loss" in result.output.partition("100 %, after 0:")[2]
    card = json.loads((out / "card.json").read_text())
    assert card["steps"] == 6
    assert card["command"].endswith(" vispco zoo train tiny-llava --seed 0")
    assert card["command"].startswith("OMP_NUM_THREADS=")
    assert "# tiny-llava" in (out / "README.md").read_text()


def test_an_unknown_model_is_refused_before_anything_is_written(tmp_path):
    result = CliRunner().invoke(app, ["train", "tiny-bert", "--out", str(tmp_path / "x" / "y")])
    assert isinstance(result.exception, UnknownNameError)
    assert "tiny-qwen" in str(result.exception)
    assert not (tmp_path / "x").exists()


def test_list_imports_nothing_heavy():
    code = (
        "import sys\nfrom vispco.cli import main\ntry: main.app(['zoo', 'list'])\nexcept SystemExit: pass\n"
        "sys.exit(','.join(name for name in ('torch', 'transformers', 'numpy') if name in sys.modules) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "tiny-qwen" in done.stdout


def test_list_shows_every_model():
    result = CliRunner().invoke(app, ["list"])
    assert result.exit_code == 0
    assert all(name in result.output for name in ("tiny-qwen", "tiny-llava", "tiny-gemma"))


def test_list_prints_the_cards_as_json():
    cards = json.loads(CliRunner().invoke(app, ["list", "--json"]).output)
    assert [card["name"] for card in cards] == [
        "tiny-qwen",
        "tiny-llava",
        "tiny-gemma",
        "tiny-qwen3",
        "tiny-deep",
        "smol",
    ]
    assert all(card["accuracy"]["average"] >= 0.85 for card in cards if card["name"] in shipped.NAMES)


def test_train_refuses_a_folder_with_files_of_others_before_it_trains(tmp_path):
    out = tmp_path / "model"
    out.mkdir()
    (out / "notes.txt").write_text("mine")
    result = CliRunner().invoke(app, ["train", "tiny-llava", "--out", str(out)])
    assert isinstance(result.exception, InvalidInputError)
    assert "notes.txt" in str(result.exception)
    assert [file.name for file in out.iterdir()] == ["notes.txt"]
    assert not (tmp_path / "model.run").exists()


def test_train_deletes_nothing_that_a_forged_card_lists(tmp_path):
    """A card that listed a file outside of the folder had it deleted."""
    out = tmp_path / "model"
    out.mkdir()
    (tmp_path / "mine.txt").write_text("mine")
    (out / "card.json").write_text(json.dumps({"sha256": {"../mine.txt": files.digest_file(tmp_path / "mine.txt")}}))
    (out / "changed.txt").write_text("changed since")
    source = tmp_path / "new"
    source.mkdir()
    (source / "card.json").write_text("{}")
    with pytest.raises(InvalidInputError, match=r"changed\.txt"):
        publish(source, out)
    (out / "card.json").write_text(json.dumps({"sha256": {"changed.txt": "0" * 64, "../mine.txt": ""}}))
    with pytest.raises(InvalidInputError):
        publish(source, out)
    (out / "card.json").write_text(json.dumps({"sha256": {"changed.txt": "0" * 64}}))
    publish(source, out)
    assert (out / "changed.txt").read_text() == "changed since"
    assert (tmp_path / "mine.txt").read_text() == "mine"


def test_train_replaces_what_an_earlier_training_wrote_and_nothing_else(tmp_path, monkeypatch):
    short = Recipe(steps=1, warmup=0, pictures=1, questions=2)
    monkeypatch.setitem(RECIPES, "tiny-llava", short)
    monkeypatch.setitem(PER_TASK, "test", 1)
    out = tmp_path / "model"
    for seed in ("0", "1"):
        args = ["train", "tiny-llava", "--out", str(out), "--seed", seed, "--no-resume"]
        result = CliRunner().invoke(app, args)
        assert result.exit_code == 0, result.output
    assert json.loads((out / "card.json").read_text())["seed"] == 1
    shipped.verify(out)
    (out / "mine.txt").write_text("mine")
    result = CliRunner().invoke(app, [*args[:-1], "--resume"])
    assert isinstance(result.exception, InvalidInputError)
    assert (out / "mine.txt").read_text() == "mine"
    shipped.verify(out)
