"""The folder that is a Hugging Face Space, with a copy of the package in it."""

import importlib.util
import runpy
import tomllib

import pytest
import yaml

from project.sources import ROOT


def test_the_space_names_its_file_and_what_it_needs():
    head = yaml.safe_load((ROOT / "space" / "README.md").read_text().split("---")[1])
    assert head["sdk"] == "gradio"
    assert (ROOT / "space" / head["app_file"]).exists()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = [*project["dependencies"], *project["optional-dependencies"]["play"]]
    assert (ROOT / "space" / "requirements.txt").read_text().splitlines() == needed


def test_the_space_builds_its_page():
    if importlib.util.find_spec("gradio") is None:
        pytest.skip("gradio is not installed (pip install '.[play]')")
    page = runpy.run_path(str(ROOT / "space" / "app.py"))["page"]
    assert {block.elem_id for block in page.blocks.values()} >= {"picture", "question", "budget", "layer", "left"}
