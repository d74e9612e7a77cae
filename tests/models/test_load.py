"""`vispco.load`: plain transformers objects, or a sentence."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys

import pytest
import torch
from transformers.utils import is_torchvision_available

from tiny import build
from vispco import load
from vispco.core.errors import InvalidInputError
from vispco.core.runs.files import DamagedFileError
from vispco.core.weights import check_weights
from vispco.models.loading import pick_device
from vispco.models.model_spec import LoadError
from vispco_zoo.definitions import build_model
from vispco_zoo.export import save_model


def test_a_folder_without_a_config_is_no_model(tmp_path):
    with pytest.raises(LoadError, match=r"no config\.json"):
        load(tmp_path)


def test_a_file_is_no_model(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(LoadError, match="is a file"):
        load(tmp_path / "model.safetensors")


@pytest.mark.parametrize("name", ["./nowhere", "no-such-model", "a/b/c"])
def test_a_name_that_is_nothing_lists_what_there_is(name):
    with pytest.raises(LoadError, match="tiny-qwen, tiny-llava, tiny-gemma"):
        load(name)


def test_an_empty_name_is_refused():
    with pytest.raises(InvalidInputError, match="empty"):
        load(" ")


def test_pickled_weights_are_not_read(tmp_path):
    model = build("llava")
    model.config.save_pretrained(tmp_path)
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(LoadError, match="safetensors"):
        load(tmp_path)


def test_the_function_stays_a_function_after_its_first_call(tmp_path):
    import vispco

    for _ in range(2):
        with pytest.raises(LoadError):
            vispco.load(tmp_path)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    save_model("tiny-qwen", build_model("tiny-qwen"), folder)
    return folder


def test_a_saved_folder_is_loaded_as_asked(saved):
    model, processor = load(saved, dtype="bfloat16", device_map="cpu", attn_implementation="eager", revision="main")
    assert (model.dtype, model.training) == (torch.bfloat16, False)
    assert model.config._attn_implementation == "eager"
    assert processor.tokenizer.padding_side == "left"
    assert load(saved)[0].dtype == torch.float16  # auto: as it was saved


@pytest.fixture
def copied(saved, tmp_path):
    return shutil.copytree(saved, tmp_path / "copied")


@pytest.mark.parametrize("damage", ["cut", "zeros", "bytes"])
def test_damaged_weights_are_named_with_how_to_restore_them(copied, damage):
    file = copied / "model.safetensors"
    whole = file.read_bytes()
    card = {"sha256": {file.name: hashlib.sha256(whole).hexdigest()}}
    (copied / "card.json").write_text(json.dumps(card))
    check_weights(copied)
    file.write_bytes(
        {"cut": whole[:5000], "zeros": bytes(999), "bytes": whole[:-9] + b"x" + whole[-8:]}[damage],
    )
    with pytest.raises(DamagedFileError, match=r"model\.safetensors is damaged.*Restore it: copy or download"):
        load(copied)
    if damage == "bytes":
        (copied / "card.json").write_text("no card")
        check_weights(copied)


def test_a_damaged_tokenizer_is_named(copied):
    (copied / "tokenizer.json").write_text("{")
    with pytest.raises(LoadError, match=r"tokenizer\.json is damaged .* Restore it"):
        load(copied)


def test_a_joined_processor_comes_with_a_note(saved, caplog):
    load(saved)
    assert ("its image processor and its tokenizer were joined" in caplog.text) != is_torchvision_available()
    caplog.clear()
    load("tiny-gemma")
    assert not caplog.text


def test_code_that_comes_with_a_model_is_not_run_unasked(tmp_path, capfd, monkeypatch):
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setattr(sys, "path", [*sys.path])
    config = {
        "model_type": "homemade",
        "auto_map": {"AutoConfig": "code.Config", "AutoModelForImageTextToText": "code.M"},
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "code.py").write_text("print('it ran')")
    with pytest.raises(LoadError, match="--trust-remote-code"):
        load(tmp_path)
    assert "it ran" not in capfd.readouterr().out
    with pytest.raises(AttributeError, match="Config"):  # now it did run, and has no such class
        load(tmp_path, trust_remote_code=True)
    assert "it ran" in capfd.readouterr().out


def test_every_process_picks_a_gpu_of_its_own(monkeypatch):
    assert pick_device("cpu") == "cpu"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    assert pick_device("auto") == "cuda:0"
    monkeypatch.setenv("VISPCO_WORKER", "6")
    assert pick_device("auto") == "cuda:2"
    monkeypatch.setenv("LOCAL_RANK", "3")
    assert pick_device("auto") == "cuda:3"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert pick_device("auto") == "cpu"
    with pytest.raises(InvalidInputError, match="no GPU"):
        pick_device("cuda:1")
