"""How large the house is: lines, public names, folders, and what one question has to pass through.

python benchmarks/house.py
"""

from __future__ import annotations

import ast
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from figures import Figure, write

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "vispco"
ASK = """
import inspect, sys, threading
from vispco.cli import main
called = set()
def profile(frame, event, _):
    code = frame.f_code
    function = code.co_flags & inspect.CO_OPTIMIZED and not code.co_name.startswith("<")  # no class body, no module
    if event == "call" and function and "/vispco/" in code.co_filename:
        called.add((code.co_filename, code.co_qualname))
sys.setprofile(profile)
threading.setprofile(profile)
try:
    main.app(sys.argv[1:])
except SystemExit as end:
    sys.setprofile(None)
    if end.code:
        raise
sys.setprofile(None)
print("called", len(called), len({file for file, _ in called}))
"""
PRUNER = """
import sys, vispco
vispco.Pruner("fastv", vispco.Schedule.single(layer=2, keep=0.5, num_layers=10))
print("imported", sum(name.split(".")[0] == "vispco" for name in sys.modules))
"""


def public_names(tree: ast.Module) -> Iterator[str]:
    """Functions and classes at the top level of a module, without an underscore."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            yield node.name


def parameters(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The number of parameters of every function, without self and cls, and its name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names = [each.arg for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
            yield len([name for name in names if name not in ("self", "cls")]), node.name


def counted(code: str, word: str, *arguments: str) -> list[int]:
    """The numbers in the line that begins with a word, of what a program prints."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True, cwd=folder
        )
    line = next(line for line in done.stdout.splitlines() if line.startswith(word))
    return [int(number) for number in line.split()[1:]]


def main() -> None:
    texts = {path.relative_to(PACKAGE): path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    trees = {path: ast.parse(text) for path, text in texts.items()}
    names = Counter(path.name for path in texts if path.name != "__init__.py")
    repeated = sorted(name for name, count in names.items() if count > 1)
    longest = sorted((found for tree in trees.values() for found in parameters(tree)), reverse=True)
    rooms = sorted({path.parts[0] for path in texts if len(path.parts) > 1})
    lines = {
        room: sum(text.count("\n") for path, text in texts.items() if path.parts[0] == room)
        for room in [*rooms, *(path.name for path in texts if len(path.parts) == 1)]
    }
    with tempfile.TemporaryDirectory() as folder:
        picture = Path(folder) / "picture.png"
        from PIL import Image

        Image.new("RGB", (64, 64), "red").save(picture)
        functions, files = counted(ASK, "called", "ask", "tiny-qwen", str(picture), "which color is it?")
    figures = {
        "lines": Figure(sum(lines.values()), "lower", 36_000, "lines"),
        "public_names": Figure(sum(len(list(public_names(t))) for t in trees.values()), "lower", 900, "names"),
        "folders": Figure(len(rooms), "lower", 20, "folders"),
        "loose_files": Figure(sum(len(path.parts) == 1 for path in texts), "lower", 4, "files"),
        "readme_bytes": Figure((ROOT / "README.md").stat().st_size, "lower", 12_000, "bytes"),
        "functions_per_ask": Figure(functions, "lower", 300, "functions"),
        "modules_imported_by_pruner": Figure(counted(PRUNER, "imported")[0], "lower", 90, "modules"),
        "largest_parameter_list": Figure(longest[0][0], "lower", 12, "parameters"),
        "repeated_file_names": Figure(len(repeated), "lower", 8, "names"),
    }
    details = {
        "lines": lines,
        "files": len(texts),
        "files_per_ask": files,
        "repeated": repeated,
        "longest_parameter_lists": longest[:12],
    }
    write("house", figures, details, seed=0)


if __name__ == "__main__":
    main()
