"""What people get by `pip install vispco`: a page on PyPI whose pictures show, and bounds that are true."""

import re
import runpy
import tomllib

from project.sources import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_page_on_pypi_has_no_relative_link_or_picture():
    readme = (ROOT / "README.md").read_text()
    shown = runpy.run_path(str(ROOT / "setup.py"))["pypi_readme"](readme)
    found = re.findall(r'(?:src|srcset|href)="([^"]+)"|\]\(([^)\s]+)\)', shown)
    places = [next(filter(None, each)) for each in found]
    assert len(places) > 5
    assert [place for place in places if not place.startswith(("https://", "#", "mailto:"))] == []
    assert shown.count("https://raw.githubusercontent.com/vispco/vispco/main/docs/pictures/") >= 4


def test_pictures_are_drawn_as_since_pillow_11_2():
    """Older ones draw other pixels than the shipped models were trained on, or fail."""
    assert "pillow>=11.2.1" in PROJECT["dependencies"]
    assert "typer>=0.16" in PROJECT["dependencies"]  # older ones cannot be installed beside huggingface_hub


def test_a_plain_install_needs_no_heavy_extra():
    heavy = ("matplotlib", "gradio", "fastapi", "ray", "datasets", "lmms-eval")
    assert [each for each in PROJECT["dependencies"] if each.startswith(heavy)] == []
