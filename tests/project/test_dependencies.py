"""Every package that is imported is declared, and every version that the tests pass with is in constraints.txt."""

import re
import sys
import tomllib

import pytest

from project.sources import PACKAGE, ROOT, imported_packages

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# The name to import, where it is not the name to install.
DISTRIBUTIONS = {"PIL": "pillow", "yaml": "pyyaml", "cooper": "cooper-optim", "importlinter": "import-linter"}
COMES_WITH = {"grimp": "import-linter", "griffe": "mkdocstrings", "pyarrow": "datasets"}
# Declared without an import of vispco's own: another package needs it there.
NOT_IMPORTED = {"huggingface-hub"}


def normalised(requirement):
    return re.split(r"[\[<>=!~; ]", requirement, maxsplit=1)[0].lower().replace("_", "-")


def declared(extra=None):
    return {normalised(r) for r in (PROJECT["dependencies"] if extra is None else extra_requirements(extra))}


def extra_requirements(extra):
    for requirement in PROJECT["optional-dependencies"][extra]:
        nested = re.match(r"vispco\[(.+)\]", requirement)
        if nested:
            for name in nested[1].split(","):
                yield from extra_requirements(name.strip())
        else:
            yield requirement


def distribution(name):
    return DISTRIBUTIONS.get(name, COMES_WITH.get(name, name)).lower().replace("_", "-")


def third_party(folder):
    """Packages by the name to install, without the standard library, vispco and modules of tests and benchmarks."""
    scripts = [path for name in ("tests", "benchmarks") for path in (ROOT / name).rglob("*")]
    skipped = {*sys.stdlib_module_names, "vispco", "vispco_zoo", *(path.stem for path in scripts)}
    return {distribution(name): files for name, files in imported_packages(folder).items() if name not in skipped}


def test_the_package_declares_what_it_imports():
    optional = set().union(
        *(
            declared(extra)
            for extra in ("search", "plots", "data", "dashboard", "lmms-eval", "play", "serve", "smol", "vllm")
        )
    )
    missing = {name: files[0] for name, files in third_party(PACKAGE).items() if name not in declared() | optional}
    assert not missing, "Declare these in [project] dependencies of pyproject.toml."


def test_the_package_imports_what_it_declares():
    """A dependency that nothing imports is removed, or its reason is given."""
    assert declared() - set(third_party(PACKAGE)) <= NOT_IMPORTED


@pytest.mark.parametrize("folder", ["tests", "benchmarks", "docs", "notebooks"])
def test_tests_and_scripts_import_what_the_dev_extra_declares(folder):
    known = declared() | declared("dev") | declared("lmms-eval") | declared("vllm")  # skipped where not installed
    missing = {n: f[0] for n, f in third_party(ROOT / folder).items() if n not in known}
    assert not missing, "Declare these in the dev extra of pyproject.toml."


def test_constraints_are_exact_and_cover_what_is_declared():
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[\w.-]+==[\w.!+]+", line) for line in lines)
    names = [normalised(line) for line in lines]
    assert len(names) == len(set(names)), "one line for one package"
    missing = (declared() | declared("dev")) - set(names)
    assert not missing


def test_the_next_major_version_of_transformers_is_refused():
    """The engine reads what transformers does not promise to keep; pyproject.toml says which."""
    bound = next(r for r in PROJECT["dependencies"] if r.startswith("transformers"))
    assert re.search(r",<6$", bound)
