"""What people get by `pip install .`: what pruning and serving need, and bounds that are true."""

import tomllib

from project.sources import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_pictures_are_drawn_as_since_pillow_11_2():
    """Older ones draw other pixels than the shipped models were trained on, or fail."""
    assert "pillow>=11.2.1" in PROJECT["dependencies"]
    assert "typer>=0.16" in PROJECT["dependencies"]  # older ones cannot be installed beside huggingface_hub


def test_a_plain_install_needs_no_heavy_extra():
    heavy = ("optuna", "scipy", "sqlalchemy", "matplotlib", "gradio", "fastapi", "datasets", "lmms-eval")
    assert [each for each in PROJECT["dependencies"] if each.startswith(heavy)] == []
