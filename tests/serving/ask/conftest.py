import pytest

import vispco
from vispco.data import dataset
from vispco.serving.ask import PictureQuestion


@pytest.fixture(scope="package")
def loaded():
    """The shipped Qwen and its processor."""
    return vispco.load("tiny-qwen")


@pytest.fixture(scope="package")
def drawn():
    """A drawn sample with a picture of many tokens."""
    return max(dataset("test", "all", limit=4), key=lambda sample: sample.area)


@pytest.fixture
def sample(drawn):
    return PictureQuestion(drawn.images, drawn.question)


@pytest.fixture
def picture(drawn, tmp_path):
    path = tmp_path / "photo.png"
    drawn.images[0].save(path)
    return path
