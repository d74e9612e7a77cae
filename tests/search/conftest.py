"""Batches of small random models, as a search takes them."""

import pytest

import tiny
from search.random_batches import make_batches
from vispco.search.gradient.relaxation import GaussianMask
from vispco.search.objective import Objective


@pytest.fixture(scope="session")
def batches():
    return make_batches()


@pytest.fixture
def objective():
    return Objective(tiny.build("qwen2_5_vl"), "fastv", relaxation=GaussianMask(2.0, 0.3))
