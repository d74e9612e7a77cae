"""The site is built without warnings, its reference has every export, the mathematics names functions that exist."""

import importlib
import inspect
import os
import re
import subprocess
import sys

import pytest

from docs.pages import ROOT, prose


def documented():
    """The packages of the reference, each by a line `::: package`."""
    return re.findall(r"^::: (\S+)$", (ROOT / "docs" / "api.md").read_text(), re.MULTILINE)


def test_every_package_with_exports_is_in_the_reference():
    package = ROOT / "src" / "vispco"
    exporting = [path.parent for path in package.glob("*/__init__.py") if "__all__" in path.read_text()]
    assert {f"vispco.{folder.name}" for folder in exporting} <= set(documented())


@pytest.mark.parametrize("name", ["vispco", "vispco.kernels", "vispco.scorers"])
def test_every_exported_name_is_there_and_says_what_it_does(name):
    module = importlib.import_module(name)
    silent = [export for export in getattr(module, "__all__", ()) if not says(getattr(module, export))]
    assert silent == []


def says(value) -> bool:
    """Whether a class or function has a docstring of its own; constants need none."""
    if inspect.isclass(value):
        return bool(vars(value).get("__doc__"))
    return bool(value.__doc__) if inspect.isroutine(value) else True


def test_the_site_is_built_without_warnings(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", tmp_path],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    page = (tmp_path / "api.html").read_text()
    assert 'id="vispco.Pruner.from_pretrained"' in page


def resolve(path: str) -> bool:
    """Whether `vispco.PATH` is a module, or something in one."""
    parts = path.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(["vispco", *parts[:cut]]))
        except ModuleNotFoundError:
            continue
        for name in parts[cut:]:
            if not hasattr(found, name):
                return False
            found = getattr(found, name)
        return True
    return False


@pytest.mark.parametrize(
    ("page", "fewest"), [("mathematics", 30), ("how-the-search-works", 20), ("what-was-measured", 0)]
)
def test_a_page_about_the_code_names_what_exists(page, fewest):
    text = prose(ROOT / "docs" / f"{page}.md")
    homes = {path.name.removesuffix(".py") for path in (ROOT / "src" / "vispco").iterdir()}
    named = [n for n in re.findall(r"`([a-z_]+(?:\.\w+)+)`", text) if n.split(".")[0] in homes]
    assert len(named) >= fewest
    assert [name for name in named if not resolve(name)] == []
