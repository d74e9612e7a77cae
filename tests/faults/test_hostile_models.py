"""A model's folder whose files do not fit together is refused by name, and nothing in it is run."""

from __future__ import annotations

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from vispco import zoo
from vispco.errors import UnsupportedModelError
from vispco.loading import LoadError, load
from vispco.planning.model_fingerprint import ModelFingerprint, OtherWeightsWarning
from vispco.pruner import Pruner


@pytest.fixture
def folder(tmp_path):
    made = shutil.copytree(zoo.path("tiny-llava"), tmp_path / "model")
    (made / "card.json").unlink()
    return made


def change_weights(folder, change):
    (file,) = folder.glob("*.safetensors")
    tensors = load_file(file)
    name = next(key for key in sorted(tensors) if "layers.0" in key and tensors[key].dim() == 2)
    change(tensors, name)
    save_file(tensors, file, {"format": "pt"})
    return name


CHANGES = {
    "missing": lambda tensors, name: tensors.pop(name),
    "left over": lambda tensors, name: tensors.update({name.replace("layers.0", "layers.99"): tensors[name].clone()}),
    "of another size": lambda tensors, name: tensors.update({name: tensors[name][:-1].clone()}),
    "not finite": lambda tensors, name: tensors[name].view(-1)[:1].fill_(float("nan")),
}


@pytest.mark.parametrize("wrong", CHANGES)
def test_weights_that_do_not_fit_are_an_error(folder, wrong):
    name = change_weights(folder, CHANGES[wrong])
    with pytest.raises(LoadError) as refused:
        load(folder)
    assert wrong in str(refused.value)
    assert name.rpartition("layers.")[2][2:] in str(refused.value)


def test_an_extra_layer_in_the_config_is_an_error_and_not_a_random_layer(folder):
    config = json.loads((folder / "config.json").read_text())
    config["text_config"]["num_hidden_layers"] += 1
    config["text_config"].pop("layer_types", None)
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(LoadError, match="missing"):
        load(folder)


def test_weights_that_are_not_safetensors_are_refused_before_they_are_opened(folder, tmp_path):
    class Bomb:
        def __reduce__(self):
            return (tmp_path.joinpath("exploded").write_text, ("",))

    (file,) = folder.glob("*.safetensors")
    file.unlink()
    torch.save({"weight": Bomb()}, folder / "pytorch_model.bin")
    with pytest.raises(OSError, match=r"pytorch_model\.bin.*not opened"):
        load(folder)
    assert not (tmp_path / "exploded").exists()


def test_a_pruner_of_another_model_is_refused(finished):
    model, _ = load("tiny-gemma")
    pruner = Pruner.from_pretrained(finished, budget=0.5)
    with pytest.raises(UnsupportedModelError, match="made for another model"):
        pruner.apply(model)


def test_a_pruner_of_other_weights_is_a_warning(finished):
    model, _ = load("tiny-llava")
    Pruner.from_pretrained(finished, budget=0.5).apply(model)
    with torch.no_grad():
        next(model.parameters()).add_(1.0)
    with pytest.warns(OtherWeightsWarning):
        Pruner.from_pretrained(finished, budget=0.5)._checked.add(model) or ModelFingerprint.from_dict(
            json.loads((finished / "config.json").read_text())["fingerprint"]
        ).check(model, "It")


def test_the_fingerprint_does_not_depend_on_the_precision():
    model, _ = load("tiny-llava")
    first = ModelFingerprint.of(model)
    assert ModelFingerprint.of(model.to(torch.bfloat16)) == first
