"""A model's folder whose files do not fit together is refused by name, and nothing in it is run."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import suppress

import pytest
import torch
from safetensors.torch import load_file, save_file

from vispco import models as zoo
from vispco.core.errors import InvalidInputError, UnsupportedModelError, VispcoError
from vispco.core.runs.files import DamagedFileError
from vispco.data import dataset
from vispco.evaluation.encoded import read
from vispco.models.loading import load
from vispco.models.model_spec import LoadError
from vispco.pruner.model_fingerprint import ModelFingerprint, OtherWeightsWarning
from vispco.pruner.pruner import Pruner


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


def weights_file(folder):
    return next(folder.glob("*.safetensors"))


@pytest.mark.parametrize("length", [2**63, 10**9, 0], ids=["beyond any memory", "a gigabyte", "none"])
def test_a_header_of_any_size_is_refused_by_the_name_of_the_file(folder, length):
    file = weights_file(folder)
    file.write_bytes(length.to_bytes(8, "little") + file.read_bytes()[8:])
    with pytest.raises(DamagedFileError, match=r"model\.safetensors is damaged"):
        load(folder)


@pytest.mark.parametrize("target", ["secret.txt", "missing", "pipe", "/dev/zero"])
def test_weights_that_are_a_link_elsewhere_are_read_as_weights_or_refused(folder, tmp_path, target):
    """A link to real weights is what the hub's cache is made of; one to anything else is refused, unread."""
    (tmp_path / "secret.txt").write_text("password: hunter2" * 9)
    os.mkfifo(tmp_path / "pipe")
    file = weights_file(folder)
    file.rename(tmp_path / "real")
    file.symlink_to(tmp_path / "real")
    load(folder)
    file.unlink()
    file.symlink_to(tmp_path / target)
    with pytest.raises(VispcoError) as refused:
        load(folder)
    assert "hunter2" not in str(refused.value)
    assert "model" in str(refused.value)


@pytest.mark.parametrize("name", ["../outside.safetensors", "/etc/passwd", "missing.safetensors", ""])
def test_an_index_of_weights_stays_inside_the_folder(folder, tmp_path, name):
    file = weights_file(folder)
    shutil.copy(file, tmp_path / "outside.safetensors")
    index = {"weight_map": dict.fromkeys(load_file(file), name)}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    file.unlink()
    with pytest.raises(VispcoError, match=r"model\.safetensors\.index\.json names weights in"):
        load(folder)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "tokenizer_config.json", "processor_config.json"])
def test_a_file_that_is_nested_too_deeply_is_a_sentence(folder, name):
    (folder / name).write_text('{"a":' * 100_000 + "1" + "}" * 100_000)
    with pytest.raises(LoadError):
        load(folder)


@pytest.mark.parametrize("name", ["pipe.json", "tokenizer.json"])
def test_a_named_pipe_in_the_folder_is_refused_and_not_waited_for(folder, name):
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    with pytest.raises(DamagedFileError, match=f"{name} is not a regular file"):
        load(folder)


ESCAPES = [
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ cycler.__init__.__globals__.os.system('touch exploded') }}",
    "{{ messages.append(1) }}",
    "{% for a in range(10**12) %}{% endfor %}",
    "{% include '/etc/passwd' %}",
    "{{ raise_exception('no') }}",
    "{{ 1 / 0 }}",
    "{% if",
]


@pytest.mark.parametrize("template", ESCAPES)
def test_a_chat_template_cannot_leave_its_sandbox(folder, tmp_path, monkeypatch, template):
    monkeypatch.chdir(tmp_path)
    (folder / "chat_template.jinja").write_text(template)
    model, processor = load(folder)
    with pytest.raises(InvalidInputError, match="chat template cannot be used"):
        read(model, processor, dataset("test", limit=1)[0])
    assert not (tmp_path / "exploded").exists()


def test_a_model_without_a_chat_template_is_a_sentence(folder, invoke):
    (folder / "chat_template.jinja").unlink()
    done = invoke("evaluate", folder, "--tasks", "attribute", "--limit", "1")
    assert done.code == 1
    assert "chat template cannot be used" in done.err
    assert "--debug" not in done.err


@pytest.mark.parametrize("name", ["tokenizer_config.json", "preprocessor_config.json", "processor_config.json"])
def test_code_of_a_processor_is_not_run_unasked(folder, tmp_path, name):
    (folder / "code.py").write_text(f"open({str(tmp_path / 'exploded')!r}, 'w')")
    found = json.loads((folder / name).read_text()) if (folder / name).exists() else {}
    kinds = ("AutoTokenizer", "AutoProcessor", "AutoImageProcessor")
    (folder / name).write_text(json.dumps({**found, "auto_map": dict.fromkeys(kinds, "code.Thing")}))
    with suppress(VispcoError):  # refused, or loaded without it
        load(folder)
    assert not (tmp_path / "exploded").exists()


def test_a_pruner_of_another_model_is_refused(finished):
    model, _ = load("tiny-gemma")
    pruner = Pruner.from_pretrained(finished, budget=0.5)
    with pytest.raises(UnsupportedModelError, match="made for another model"):
        pruner.apply(model)


def test_a_run_of_another_model_of_the_same_depth_is_not_evaluated(invoke, finished):
    done = invoke(
        "evaluate", "tiny-gemma", "--pruner", finished, "--budget", "0.5", "--tasks", "attribute", "--limit", "1"
    )
    assert done.code == 1
    assert "made for another model" in done.err


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


@pytest.mark.parametrize("here", ["tiny-gemma", "tiny-qwen"])
def test_what_differs_between_two_models_is_named_and_what_is_not_known_is_not(here):
    models = {name: load(name)[0] for name in ("tiny-llava", here)}
    made_for = ModelFingerprint.of(models["tiny-llava"])
    with pytest.raises(UnsupportedModelError, match="kv_heads 4 there, 2 here") as told:
        made_for.check(models[here], "The pruner")
    assert "None" not in str(told.value)
    assert ("windows none there, 48 in 4 of 8 layers here" in str(told.value)) == (here == "tiny-gemma")
    unknown = dict.fromkeys(made_for.dimensions)
    ModelFingerprint("", unknown, "").check(models[here], "The pruner")
