"""Small untrained models of the shipped architectures with their own processors, and a few samples to ask them."""

from __future__ import annotations

from functools import cache

import pytest
import torch

from vispco.data import dataset
from vispco.models.processor import JoinedProcessor
from vispco.models.shipped import ONE_OF_EACH_CLASS
from vispco_zoo.definitions import build_image_processor, build_model
from vispco_zoo.tokenizer import build_tokenizer

torch.set_num_threads(1)


@cache
def built(name):
    model = build_model(name).eval()
    return model, JoinedProcessor(build_image_processor(name), build_tokenizer(name), model.config)


@pytest.fixture(params=ONE_OF_EACH_CLASS)
def pair(request):
    """(model, processor), for each architecture."""
    return built(request.param)


@pytest.fixture
def qwen():
    return built("tiny-qwen")


@pytest.fixture(scope="session")
def samples():
    """Two of each task, pictures of many sizes."""
    return dataset("test", "attribute,position,word,chart", limit=2)[:]


def layers_of(model):
    return model.config.text_config.num_hidden_layers


@pytest.fixture
def vision_calls(pair):
    """A list that grows by one whenever the vision tower of `pair` runs."""
    model, _ = pair
    tower = getattr(model.model, "visual", None) or model.model.vision_tower
    calls = []
    handle = tower.register_forward_pre_hook(lambda *_: calls.append(1))
    yield calls
    handle.remove()
