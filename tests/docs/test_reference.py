"""The API reference is what the docstrings say, and the mathematics names functions that exist."""

import importlib
import re
import subprocess
import sys

from docs.pages import ROOT, prose


def test_the_api_reference_is_up_to_date():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", ROOT / "docs" / "write_api.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


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


def test_the_mathematics_names_what_exists():
    text = prose(ROOT / "docs" / "mathematics.md")
    homes = {path.name.removesuffix(".py") for path in (ROOT / "src" / "vispco").iterdir()}
    named = [n for n in re.findall(r"`([a-z_]+(?:\.\w+)+)`", text) if n.split(".")[0] in homes]
    assert len(named) > 30
    assert [name for name in named if not resolve(name)] == []
