"""The faults of `make mutants`: the same every time, each a program that differs in one place, none in what is only said."""

import ast
import importlib
import sys
import tomllib

import pytest

from project.sources import ROOT

sys.path.append(str(ROOT / "benchmarks"))
mutations = importlib.import_module("mutations")
sys.path.pop()


def test_the_sample_is_large_fixed_and_of_every_place_and_kind():
    found = [mutant for place in mutations.PLACES for mutant in mutations.sample(place)]
    assert [mutant for place in mutations.PLACES for mutant in mutations.sample(place)] == found
    assert len(found) == len({mutant.key for mutant in found}) >= 150
    assert {mutant.place for mutant in found} == set(mutations.PLACES)
    assert len({mutant.kind for mutant in found}) == 10
    for mutant in found:
        assert ast.dump(ast.parse(mutant.text())) != ast.dump(ast.parse((ROOT / "src" / mutant.file).read_text()))
    for _, _, tests in mutations.PLACES.values():
        assert all((ROOT / "tests" / path).exists() for path in tests)


CODE = '''"""1 + 1"""
__all__ = ["a" + "b"]


def f(x: int | None = 3, *, deep: bool = True) -> "1 + 2":
    """1 + 1"""
    if x < 4 and not deep:
        raise ValueError(f"{x + 1} was given" + "!")
    print(x + 1)
    x += 1
    return max(x - 1, g(x, device="cpu", a=2))
'''
FAULTS = {
    "x: int | None = 4,",
    "deep: bool = False)",
    "x <= 4",
    "x < 5",
    "4 or not",
    "and (deep)",
    "        pass\n    print",
    "pass\n    return",
    "x += 2",
    "return None",
    "min(x",
    "x + 1, g",
    "x - 2",
    'device="cpu")',
    "a=3",
}


def test_messages_annotations_and_docstrings_are_left():
    edits = list(mutations.Faults(CODE))
    made = [CODE[:start] + new + CODE[end:] for _, start, end, new in edits]
    assert len(made) == len(FAULTS)
    assert all(sum(part in text and part not in CODE for text in made) == 1 for part in FAULTS)


@pytest.mark.parametrize("entry", tomllib.loads((ROOT / "benchmarks/equivalent_mutants.toml").read_text())["mutant"])
def test_a_mutant_that_is_called_equivalent_has_a_reason(entry):
    assert entry["before"] != entry["after"]
    assert entry["reason"].endswith(".")
    assert (ROOT / "src" / entry["file"]).exists()
