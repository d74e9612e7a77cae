"""`describe`: which models are first class, the visual tokens of a picture, what is not a config."""

import json

import pytest
from PIL import Image

import tiny
from vispco import models as zoo
from vispco.cli.info import read_config
from vispco.families import FAMILIES
from vispco.families.visual_tokens import visual_tokens
from vispco.models.model_spec import LoadError
from vispco.timing.describe_settings import DescribeSettings
from vispco.timing.estimates import describe


@pytest.mark.parametrize("name", tiny.BUILDERS)
def test_generic_families_are_not_called_first_class(name):
    config = tiny.build(name).config
    path = describe(config, name, DescribeSettings(visual=16))["supported"]["path"]
    assert path == ("first class" if name in tiny.FIRST_CLASS else "generic, tested")


def test_first_class_models_are_those_that_the_laws_are_tested_on():
    declared = {model_type for family in FAMILIES.values() for model_type in family.first_class}
    assert declared == set(tiny.FIRST_CLASS)


@pytest.mark.parametrize("size", [(20, 30), (84, 90), (113, 100), (640, 480), (90, 400)])
def test_the_visual_tokens_of_a_picture_are_those_of_the_processor_of_qwen3(size):
    model, processor = zoo.load("tiny-qwen3")
    settings = json.loads((zoo.path("tiny-qwen3") / "preprocessor_config.json").read_text())
    grid = processor.image_processor(images=[Image.new("RGB", size)], return_tensors="pt")["image_grid_thw"]
    assert visual_tokens(model.config, *size, settings) == int(grid.prod()) // 4


@pytest.mark.parametrize("budget", [0.9, 0.5, 0.1])
def test_the_cache_at_a_budget_is_that_of_the_most_tokens_that_meet_it(budget, monkeypatch):
    """A loop over all numbers of tokens, layer by layer, in plain arithmetic."""
    from vispco.timing import estimates

    monkeypatch.setattr(estimates, "_SHOWN_BUDGETS", (1.0, budget))
    text, visual, told = 20, 60, {}
    for name in ("tiny-llava", "tiny-gemma"):
        config = read_config(name)
        told = describe(config, name, DescribeSettings(visual=visual, text=text))
        D, H, K, d, F = (told[key] for key in ("hidden", "heads", "kv_heads", "head_dim", "ffn"))
        linear, pairs = 4 * D * H * d + 4 * D * K * d + 6 * D * F, 4 * H * d

        def inputs(keep, told=told):
            return [text + (visual if layer < 2 else keep) for layer in range(told["layers"])]

        def price(keep, linear=linear, pairs=pairs, inputs=inputs):
            return sum(n * linear + n * n * pairs for n in inputs(keep))

        keep = max((k for k in range(visual + 1) if price(k) <= budget * price(visual)), default=0)
        window = getattr(config.get_text_config(), "sliding_window", None)
        kinds = getattr(config.get_text_config(), "layer_types", None) or ["full_attention"] * told["layers"]
        kept = [min(n, window - 1) if k == "sliding_attention" else n for n, k in zip(inputs(keep), kinds, strict=True)]
        assert told["kv_bytes_at"][f"{budget:.0%}"] == sum(kept) * 2 * K * d * told["dtype_bytes"]


@pytest.mark.parametrize(
    "data",
    [
        {"model_type": "llava", "text_config": {"model_type": "llama", "hidden_size": "wide"}},
        {"model_type": "llava", "text_config": 7},
        {"model_type": 5},
        [1, 2],
    ],
    ids=["a field of a wrong type", "a number for a part", "a number for the type", "a list"],
)
def test_a_config_that_cannot_be_one_is_refused_in_a_sentence(data, tmp_path):
    file = tmp_path / "wrong.json"
    file.write_text(json.dumps(data))
    with pytest.raises(LoadError, match=r"No config could be read from .*wrong\.json"):
        read_config(str(file))
