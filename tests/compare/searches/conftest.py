"""Evaluators on a small untrained model with its own processor."""

from functools import cache

import pytest
import torch

from vispco.data import dataset
from vispco.evaluation.evaluator import TaskEvaluator
from vispco.models.processor import JoinedProcessor
from vispco_zoo.definitions import build_image_processor, build_model
from vispco_zoo.tokenizer import build_tokenizer

torch.set_num_threads(1)


@cache
def built(name):
    model = build_model(name).eval()
    return model, JoinedProcessor(build_image_processor(name), build_tokenizer(name), model.config)


def evaluator(split="calibration", scorer="fastv", name="tiny-qwen", batch_size=2):
    samples = dataset(split, "word,chart", limit=2)[:]
    return TaskEvaluator(*built(name), samples, scorer, batch_size=batch_size, max_new_tokens=1)


@pytest.fixture(scope="module")
def calibration():
    return evaluator()


@pytest.fixture(scope="module")
def test_set():
    return evaluator("test")
