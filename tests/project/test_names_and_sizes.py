"""One name for one thing, and functions that can be called without a manual."""

import ast
import importlib
from collections import defaultdict

import pytest

from project.sources import PACKAGE, parsed

MOST = 8  # parameters of a function
GENERIC = {"utils", "helpers", "misc", "common", "tools", "stuff", "core"}
LONGEST = 350  # lines of a file


def functions():
    """(file, class or None, function) of the package."""
    for path, tree in parsed(PACKAGE).items():
        for node in ast.walk(tree):
            inside = node.name if isinstance(node, ast.ClassDef) else None
            if isinstance(node, ast.ClassDef | ast.Module):
                yield from ((path, inside, each) for each in node.body if isinstance(each, ast.FunctionDef))


def num_parameters(function: ast.FunctionDef) -> int:
    given = function.args
    own = [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return len(own) - (own[:1] in (["self"], ["cls"]))


def public_names():
    """What packages export by `__all__`: the public entry points, which the reference documents."""
    found = set()
    for path in sorted(PACKAGE.glob("**/__init__.py")):
        parts = path.parent.relative_to(PACKAGE).parts
        if "__all__" in path.read_text():
            found |= set(importlib.import_module(".".join(("vispco", *parts))).__all__)
    return found


def test_no_function_takes_more_than_eight_parameters_but_public_entry_points_and_commands():
    public = public_names()
    many = [
        f"{path.relative_to(PACKAGE)}: {inside or ''} {function.name} takes {num_parameters(function)}"
        for path, inside, function in functions()
        if num_parameters(function) > MOST
        and "cli" not in path.parts
        and (function.name if inside is None else inside) not in public
    ]
    assert many == []


def test_no_two_classes_have_one_name():
    homes = defaultdict(list)
    for path, tree in parsed(PACKAGE).items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                homes[node.name].append(str(path.relative_to(PACKAGE)))
    assert {name: paths for name, paths in homes.items() if len(paths) > 1} == {}


@pytest.mark.parametrize("path", sorted(parsed(PACKAGE)), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_a_file_is_named_after_what_is_inside_and_is_not_a_book(path):
    assert path.stem not in GENERIC
    assert len(path.read_text().splitlines()) <= LONGEST
