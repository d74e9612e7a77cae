"""`vispco.load`: plain transformers objects, or a sentence."""

from __future__ import annotations

import pytest
import torch

from tiny import build
from vispco import load
from vispco.errors import InvalidInputError
from vispco.loading import LoadError


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
