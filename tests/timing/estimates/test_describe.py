"""`describe` says which models are first class: those that every law of the engine is tested on."""

import json

import pytest
from PIL import Image

import tiny
from vispco import models as zoo
from vispco.families import FAMILIES
from vispco.timing.estimates import DescribeSettings, describe
from vispco.timing.estimates.model_size import visual_tokens


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
