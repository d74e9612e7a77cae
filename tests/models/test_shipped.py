import json
import shutil

import pytest
import torch

from vispco import models as zoo
from vispco.core.errors import UnknownNameError
from vispco.data import dataset
from vispco.models import shipped as shipped_models
from vispco_zoo.answers import with_pixels
from vispco_zoo.recipe import Recipe, recipe

SHIPPED = [name for name in zoo.names() if (shipped_models.WEIGHTS / name).exists()]
shipped = pytest.mark.parametrize(
    "name", SHIPPED or [pytest.param("none", marks=pytest.mark.skip(reason="no weights are here"))]
)


@shipped
def test_a_shipped_model_answers_what_its_card_promises(name):
    model, processor = zoo.load(name)
    card = json.loads((zoo.path(name) / shipped_models.CARD).read_text())
    samples = dataset("test", limit=6)[:]
    scores = zoo.accuracy(model, processor, samples)
    assert model.dtype == torch.float32
    assert scores["average"] >= card["accuracy"]["average"] - 0.17  # 48 items: more than two standard errors


@shipped
def test_a_shipped_model_was_made_by_the_recipe_that_is_here(name):
    card = json.loads((zoo.path(name) / shipped_models.CARD).read_text())
    plan = recipe(name)
    assert Recipe.from_dict(card["recipe"]) == plan
    assert card["steps"] == plan.steps
    assert card["command"] == f"OMP_NUM_THREADS=1 vispco zoo train {name} --seed 0"


@shipped
def test_a_shipped_model_loads_by_plain_from_pretrained(name):
    import transformers

    card = json.loads((zoo.path(name) / shipped_models.CARD).read_text())
    model = getattr(transformers, card["architecture"]).from_pretrained(zoo.path(name))
    assert sum(p.numel() for p in model.parameters()) == card["parameters"]
    assert model.config.text_config.num_hidden_layers >= (10 if name == "tiny-qwen" else 8)


def test_a_model_trained_at_many_sizes_reads_smaller_pictures():
    """Downsampling is judged fairly only on a model that knows smaller pictures."""
    model, processor = zoo.load("tiny-qwen3")
    card = json.loads((zoo.path("tiny-qwen3") / shipped_models.CARD).read_text())
    assert card["fewer_pixels"]["0.5"]["average"] >= 0.85
    samples = dataset("test", limit=6)[:]
    small = with_pixels(samples, 0.5)
    assert all(abs(b.area / a.area - 0.5) < 0.05 for a, b in zip(samples, small, strict=True))
    assert zoo.accuracy(model, processor, small)["average"] >= card["fewer_pixels"]["0.5"]["average"] - 0.17


def test_all_weights_together_are_small():
    def size(*names):
        return sum(
            f.stat().st_size for name in names for f in (shipped_models.WEIGHTS / name).rglob("*") if f.is_file()
        )

    assert size(*shipped_models.NAMES) <= 24 * 2**20
    assert size("smol") <= 12 * 10**6  # beside its language model, which is not shipped
    assert {folder.name for folder in shipped_models.WEIGHTS.iterdir()} <= set(shipped_models.LOADABLE)


@pytest.fixture
def copied(tmp_path, monkeypatch):
    if not SHIPPED:
        pytest.skip("no weights are here")
    shutil.copytree(shipped_models.WEIGHTS / SHIPPED[0], tmp_path / SHIPPED[0])
    monkeypatch.setattr(shipped_models, "WEIGHTS", tmp_path)
    return SHIPPED[0], tmp_path / SHIPPED[0]


def test_damaged_weights_are_named_with_the_way_back(copied):
    name, folder = copied
    file = folder / "model.safetensors"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with pytest.raises(zoo.DamagedWeightsError, match=r"model\.safetensors is damaged.*git checkout.*vispco zoo train"):
        zoo.load(name)


@pytest.mark.parametrize("file", ["model.safetensors", "tokenizer.json", "card.json"])
def test_a_missing_file_is_named(copied, file):
    name, folder = copied
    (folder / file).unlink()
    with pytest.raises(zoo.DamagedWeightsError, match=f"{file} is missing"):
        zoo.load(name)


def test_a_broken_card_is_named(copied):
    name, folder = copied
    (folder / "card.json").write_text("{")
    with pytest.raises(zoo.DamagedWeightsError, match=r"card\.json is damaged"):
        zoo.load(name)


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(UnknownNameError, match="tiny-gemma, tiny-llava, tiny-qwen"):
        zoo.load("tiny-bert")
