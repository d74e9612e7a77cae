"""`vispco.search` and `vispco.sweep` are called as functions and opened as packages, whatever was imported before."""

import inspect
import subprocess
import sys

import pytest

import vispco

PACKAGES = {"search": "vispco.search.run", "sweep": "vispco.sweep.loaded_model"}


@pytest.mark.parametrize("before", ["pass", "import vispco.{name}", "from {home} import {name}"])
def test_they_are_callable_whatever_was_imported_before(before):
    """Importing anything of a package sets its name in `vispco` to the package; the name must stay callable."""
    lines = ["import inspect, vispco"]
    for name, home in PACKAGES.items():
        lines += [before.format(name=name, home=home)]
        lines += [f"print(callable(vispco.{name}), *list(inspect.signature(vispco.{name}).parameters)[:3])"]
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["True model processor samples"] * 2


@pytest.mark.parametrize("name", PACKAGES)
def test_it_calls_the_function_and_is_still_a_package(name, monkeypatch):
    package, home = getattr(vispco, name), sys.modules[inspect.getmodule(getattr(vispco, name)).__name__]
    assert inspect.ismodule(package)
    assert package is home
    function = getattr(package, name)
    assert inspect.signature(package) == inspect.signature(function)
    monkeypatch.setattr(sys.modules[PACKAGES[name]], name, lambda *args, **options: (args, options))
    assert package(1, 2, seed=3) == ((1, 2), {"seed": 3})
    with pytest.raises(AttributeError, match=f"module 'vispco.{name}' has no attribute 'nothing'"):
        package.nothing  # noqa: B018
