import importlib.util
from dataclasses import dataclass

import pytest

import vispco
from report.browser import chromium, missing
from vispco.data import dataset
from vispco.pruner.pruner_spec import PrunerSpec
from vispco.serving.play.session import PlaySession


@pytest.fixture(scope="session")
def session():
    return PlaySession(*vispco.load("tiny-qwen"), PrunerSpec.choose(), max_new_tokens=4)


@pytest.fixture(scope="session")
def picture(tmp_path_factory):
    sample = max(dataset("test", "all", limit=4), key=lambda each: each.area)
    path = tmp_path_factory.mktemp("pictures") / "photo.png"
    sample.images[0].save(path)
    return path


@dataclass
class Open:
    driver: object
    url: str


@pytest.fixture(scope="session")
def page(session):
    """The page in a real browser."""
    if importlib.util.find_spec("gradio") is None:
        pytest.skip("gradio is not installed (pip install '.[play]')")
    if missing() is not None:
        pytest.skip(missing())
    from vispco.serving.play.page import build_page, start

    built = build_page(session)
    url = start(built)
    with chromium() as driver:
        yield Open(driver, url)
    built.close(verbose=False)
