"""One name for one thing, and functions that can be called without a manual."""

import ast
from collections import defaultdict

import pytest

from project.sources import PACKAGE, parsed

MOST = 8  # parameters of a function
# Public entry points, called with the few keywords that a user needs; every command of the command line is one, too.
ENTRY_POINTS = {
    "cost/workload.py: Workload",
    "evaluation/evaluator.py: evaluate",
    "search/run_search.py: search",
    "search/learned/train_scorer.py: train_scorer",
    "sweep/runner.py: sweep",
}
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


def test_no_function_takes_more_than_eight_parameters_but_public_entry_points_and_commands():
    many = {
        f"{path.relative_to(PACKAGE).as_posix()}: {inside or function.name}"
        for path, inside, function in functions()
        if num_parameters(function) > MOST and not is_command(path, function)
    }
    assert many == ENTRY_POINTS


def is_command(path, function):
    """The parameters of a command are its options on the command line."""
    return (
        path.parent == PACKAGE / "cli" and not function.name.startswith("_") and "typer.Option" in ast.unparse(function)
    )


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
