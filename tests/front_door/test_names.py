"""`import vispco`: every name resolves, says what it does, and means the same everywhere."""

import importlib
import inspect
import subprocess
import sys

import pytest

import vispco
from vispco.core.errors import VispcoError

EXPECTED = {
    "Pruner",
    "PrunerSpec",
    "Schedule",
    "Scorer",
    "register",
    "Frontier",
    "load",
    "search",
    "sweep",
    "evaluate",
    "VispcoError",
}
ENTRY_POINTS = {
    "Pruner": vispco.Pruner,
    "Pruner.from_pretrained": vispco.Pruner.from_pretrained,
    "Schedule.single": vispco.Schedule.single,
    "load": vispco.load,
    "search": vispco.search.search,
    "sweep": vispco.sweep.sweep,
    "evaluate": vispco.evaluate,
}
# What an argument is called wherever it is taken, and what it is therefore not called.
WORDS = {
    "samples": {"data", "dataset", "items", "examples", "inputs"},
    "directory": {"out", "output", "path", "output_dir", "out_dir"},
    "scorer": {"method", "score", "scorer_name"},
    "budget": {"target", "fraction", "limit"},
    "num_layers": {"layers", "n_layers", "depth"},
    "batch_size": {"batch", "bs"},
    "seed": {"random_state", "rng"},
    "kl": {"with_kl", "divergence"},
    "progress": {"on_progress", "callback", "bar"},
}


def test_the_front_door_is_as_wide_as_promised():
    assert set(vispco.__all__) >= EXPECTED
    assert sorted(vispco.__all__) == sorted({*vispco._HOMES, "__version__"})
    assert set(dir(vispco)) >= set(vispco.__all__)


@pytest.mark.parametrize("name", vispco.__all__)
def test_every_name_resolves_and_has_a_docstring(name):
    value = getattr(vispco, name)
    assert inspect.getdoc(value)
    assert getattr(importlib.import_module("vispco"), name) is value


def test_every_error_of_the_package_is_caught_by_its_parent():
    errors = [value for name in vispco.__all__ if name.endswith("Error") for value in [getattr(vispco, name)]]
    assert len(errors) >= 5
    assert all(issubclass(error, VispcoError) for error in errors)


def test_an_unknown_name_is_refused():
    with pytest.raises(AttributeError, match="module 'vispco' has no attribute 'Prunner'"):
        vispco.Prunner  # noqa: B018


@pytest.mark.parametrize("name", ENTRY_POINTS)
def test_arguments_have_the_same_name_everywhere(name):
    given = set(inspect.signature(ENTRY_POINTS[name]).parameters)
    wrong = {word: given & others for word, others in WORDS.items() if given & others}
    assert not wrong, f"vispco.{name} takes other words than the rest of the front door"


@pytest.mark.parametrize("name", ["search", "sweep", "evaluate"])
def test_what_runs_a_model_takes_the_model_its_processor_and_samples_first(name):
    parameters = inspect.signature(ENTRY_POINTS[name]).parameters
    assert list(parameters)[:3] == ["model", "processor", "samples"]
    assert all(p.kind in (p.KEYWORD_ONLY, p.VAR_KEYWORD) for p in list(parameters.values())[3:])


def test_importing_it_imports_nothing_heavy():
    program = (
        "import sys, vispco; dir(vispco); vispco.search; print(*{'torch', 'transformers', 'optuna'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
