"""The wheel, installed in an environment of its own and used from another folder, as `pip install .` gives it.

python tests/wheel_outside.py [--venv DIR]

Not a test by itself: it installs some 2 GB (`make wheel-test`). Versions are those of constraints.txt. Shipped weights, the
page's template and its scripts must come with the wheel: nothing of the repository can be seen from there.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
SMALL = ("--tasks", "word", "--limit", "1")
RANDOM = ("--strategy", "random", "--trials", "2")
# What is typed, and a part of what must be shown.
PLAIN = (
    (("--version",), "vispco 0."),
    (("info", "tiny-qwen"), "decoder layers"),
    (("info", "--methods"), "pyramiddrop"),
    (("zoo", "list"), "tiny-deep"),
    (("ask", "tiny-qwen", "photo.png", "how many rings are there?", "--rounds", "1", "--open"), "unpruned"),
    (("evaluate", "tiny-qwen", *SMALL), "average"),
    (("evaluate", "tiny-qwen", *SMALL, "--method", "dynamic-llava"), "average"),
)
WITH_SEARCH = (  # the extra
    (("sweep", "tiny-qwen", *SMALL, *RANDOM, "--workers", "0", "--out", "runs/sweep"), "on the frontier"),
    (("report", "runs/sweep", "--out", "runs/report.html"), "report.html is ready"),
    (("demo", "--help"), "Usage: vispco demo"),
)
FILES = ("photo-survivors.png", "photo-survivors.html", "runs/report.html")
PICTURE = "from vispco.data import dataset; dataset('test', limit=1)[0].image.save('photo.png')"


def build(into: Path) -> Path:
    """A wheel of the files that git knows, as they are now."""
    source = into / "source"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, source / name)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", into / "dist", source]
    subprocess.run(command, check=True)
    return next((into / "dist").glob("vispco-*.whl"))


def check_description(wheel: Path) -> None:
    """The metadata: the README, and the extra without which nothing searches."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        metadata = archive.read(name).decode()
    for part in ("Description-Content-Type: text/markdown", "# vispco", "Provides-Extra: search"):
        if part not in metadata:
            raise SystemExit(f"The wheel's metadata has no {part!r}.")


def install(environment: Path, wheel: Path, extra: str = "") -> Path:
    """An environment with the wheel alone, or with an extra such as [search]; its folder of commands."""
    if not (environment / "bin" / "python").exists():
        venv.create(environment, with_pip=True)
    pip = [environment / "bin" / "python", "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt"]
    subprocess.run([*pip, "--force-reinstall", "--no-deps", wheel], check=True)
    subprocess.run([*pip, f"{wheel}{extra}"], check=True)
    return environment / "bin"


def use(programs: Path, folder: Path, commands: tuple[tuple[tuple[str, ...], str], ...]) -> None:
    """Type the commands in a folder outside of the repository; what fails ends the script."""
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "DISPLAY")}
    env |= {"HF_HUB_OFFLINE": "1", "COLUMNS": "100", "BROWSER": "true"}
    folder.mkdir(exist_ok=True)
    subprocess.run([programs / "python", "-c", PICTURE], cwd=folder, env=env, check=True)
    for words, shown in commands:
        done = subprocess.run(
            [programs / "vispco", *words], cwd=folder, env=env, check=False, capture_output=True, text=True
        )
        said = done.stdout + done.stderr
        if done.returncode or shown not in said:
            raise SystemExit(f"vispco {' '.join(words)}: exit {done.returncode}, without {shown!r}:\n{said}")
        sys.stdout.write(f"vispco {' '.join(words)}: works\n")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--venv", type=Path, help="an environment to make or to use again (default: a temporary one)")
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="vispco-wheel-") as name:
        place = Path(name)
        wheel = build(place)
        check_description(wheel)
        sys.stdout.write(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB\n")
        environment, folder = (given.venv or place / "venv").absolute(), place / "outside"
        use(install(environment, wheel), folder, PLAIN)
        use(install(environment, wheel, "[search]"), folder, WITH_SEARCH)
        missing = [name for name in FILES if not (folder / name).is_file() or not (folder / name).stat().st_size]
        if missing:
            raise SystemExit(f"Not written: {', '.join(missing)}.")
    sys.stdout.write("The wheel works outside of the repository.\n")


if __name__ == "__main__":
    main()
