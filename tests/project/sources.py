"""The project's Python files, parsed once."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "vispco"


@cache
def parsed(folder: Path) -> dict[Path, ast.Module]:
    """Syntax trees by path, of every Python file under a folder."""
    return {path: ast.parse(path.read_text()) for path in sorted(folder.rglob("*.py"))}


def imported_packages(folder: Path) -> dict[str, list[Path]]:
    """Top-level names that the files of a folder import, inside functions too, with the files that import them."""
    found: dict[str, list[Path]] = {}
    for path, tree in parsed(folder).items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                names = [node.module]
            else:
                continue
            for name in names:
                found.setdefault(name.partition(".")[0], []).append(path)
    return found
