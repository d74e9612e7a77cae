"""The oldest versions that pyproject.toml allows, in an environment of their own, with a part of the tests run in it.

python tests/lower_bounds.py [--venv .venv-lower] [--replace torch==2.13.0] [--pins-only]

Not a test by itself: it installs some 2 GB (`make lower-bounds`). The pins are made from pyproject.toml, so that a bound
that is changed there is what is tried here.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXTRAS = (
    "search",
    "plots",
    "data",
    "dashboard",
    "play",
    "serve",
    "smol",
)  # what a user may install; lmms-eval has its own bounds
TOOLS = ("pytest", "pytest-timeout", "pytest-xdist", "hypothesis", "selenium", "moocore", "prometheus-client")
PINS = ROOT / "build" / "lower-bounds.txt"
# Pictures as the shipped models saw them, models and their answers, attention kernels, costs, commands, a server, a page.
SUBSET = (
    "tests/data",
    "tests/models/test_shipped.py",
    "tests/models/test_processor.py",
    "tests/kernels",
    "tests/cost",
    "tests/metrics",
    "tests/data/files",
    "tests/evaluation/frontier",
    "tests/engine/test_laws.py",
    "tests/engine/test_generate.py",
    "tests/evaluation",
    "tests/sweep/test_run.py",
    "tests/sweep/test_journal.py",
    "tests/cli/test_commands.py",
    "tests/cli/test_tables.py",
    "tests/serving/ask",
    "tests/report/plots",
    "tests/serving",
    "tests/serving/play",
)


def requirements(project: dict) -> list[str]:
    """What a user installs: the dependencies, and those of the extras."""
    optional = project["optional-dependencies"]
    return [*project["dependencies"], *(each for extra in EXTRAS for each in optional[extra])]


def lower_pins(project: dict, replaced: dict[str, str] | None = None) -> list[str]:
    """`name==version` of the lower bound of each requirement; a requirement without a lower bound is refused."""
    pins = {}
    for requirement in requirements(project):
        found = re.match(r"([\w.-]+)(?:\[[\w,-]+\])?\s*>=\s*([\w.]+)", requirement)
        if found is None:
            raise ValueError(f"{requirement!r} has no lower bound. Give it one that was tried, such as name>=1.2.")
        name, version = found.groups()
        pins[name] = (replaced or {}).get(name, version)
    return [f"{name}=={version}" for name, version in sorted(pins.items())]


def install(environment: Path, pins: Path, project: dict) -> Path:
    """A new environment with the pins, the package and the test tools; the path of its Python."""
    if not (environment / "bin" / "python").exists():
        venv.create(environment, with_pip=True)
    python = environment / "bin" / "python"
    tools = [each for each in project["optional-dependencies"]["dev"] if re.split(r"[<>=]", each)[0] in TOOLS]
    asked = f"{ROOT}[{','.join(EXTRAS)}]"
    subprocess.run([python, "-m", "pip", "install", "--quiet", "-c", pins, "--editable", asked, *tools], check=True)
    return python


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--venv", type=Path, default=ROOT / ".venv-lower")
    options.add_argument("--replace", action="append", default=[], metavar="NAME==VERSION", help="another pin")
    options.add_argument("--pins-only", action="store_true", help="write the pins and stop")
    options.add_argument("tests", nargs="*", help="tests to run in place of the usual part")
    given = options.parse_args()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pins = lower_pins(project, dict(each.split("==") for each in given.replace))
    PINS.parent.mkdir(exist_ok=True)
    PINS.write_text("\n".join(pins) + "\n")
    sys.stdout.write(f"{PINS.relative_to(ROOT)}:\n  " + "\n  ".join(pins) + "\n")
    if given.pins_only:
        return 0
    python = install(given.venv, PINS, project)
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [python, "-m", "pytest", "-q", *(given.tests or SUBSET)], cwd=ROOT, env=env, check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
