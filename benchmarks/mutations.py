"""Single-line faults in the sources of the package: a fixed sample of them, and the tests that should notice."""

from __future__ import annotations

import ast
import hashlib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
SEED = 0
PLACES: dict[str, tuple[int, tuple[str, ...], tuple[str, ...]]] = {  # number of mutants, sources, tests
    "engine": (44, ("engine/*",), ("engine", "methods", "check", "core/test_layout.py")),
    "cost": (28, ("cost/*",), ("cost", "kernels", "pruner/presets", "engine/test_flops.py")),
    "pruner": (28, ("pruner/*",), ("pruner", "search/test_predictor.py", "search/joint")),
    "evaluation": (22, ("evaluation/*",), ("evaluation", "search/test_objective.py")),
    "metrics": (22, ("metrics/**/*",), ("metrics", "data", "real/test_benchmark_samples.py")),
    "serving": (18, ("serving/server/*",), ("serving/server",)),
    "run folders": (
        24,
        tuple(f"core/runs/{name}" for name in ("files", "checksums", "run_folder", "run_record")),
        ("core/test_files.py", "core/test_run_folder.py", "faults/test_run_folders.py", "faults/test_damaged_runs.py"),
    ),
}
SWAPS = {
    "<": "<=",
    ">": ">=",
    "==": "!=",
    "is": "is not",
    "in": "not in",
    "and": "or",
    "+": "-",
    "min": "max",
    "minimum": "maximum",
    "amin": "amax",
}
SWAPS |= {new: old for old, new in SWAPS.items()}
SIGNS: dict[type, str] = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}
SIGNS |= {ast.Is: "is", ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in"}
SIGNS |= {ast.And: "and", ast.Or: "or", ast.Add: "+", ast.Sub: "-"}
UNTOUCHED = {"annotation", "returns", "decorator_list", "bases"}  # parts of a node
SPEECH = {"warn", "warning", "info", "debug", "error", "exception", "print", "echo"}  # calls that tell something
GUARDS = {
    "device",
    "non_blocking",
    "strict",
    "encoding",
    "what",
    "remedy",
    "repr",
}  # keywords: unseen on a CPU, or messages
UNSAFE = {"kill", "killpg"}  # another signal to another process is no fault for a test

Fault = tuple[str, int, int, str]
"""(kind, start, end, new text) of an edit of a file's text."""


@dataclass(frozen=True)
class Mutant:
    """A fault: in `file` (under src) the text from `start` to `end` becomes `new`. key: its identity, whatever stands elsewhere."""

    place: str
    file: str
    line: int
    kind: str
    start: int
    end: int
    new: str
    before: str
    after: str
    key: str

    def text(self) -> str:
        """The whole file with the fault."""
        text = (SOURCE / self.file).read_text()
        return text[: self.start] + self.new + text[self.end :]


class Faults:
    """The single-line faults of one file. Docstrings, annotations, exceptions' messages, `__all__` and logging are left."""

    def __init__(self, text: str) -> None:
        self.text, self.lines = text, text.split("\n")
        self.begins = [0]
        for line in self.lines:
            self.begins.append(self.begins[-1] + len(line) + 1)

    def __iter__(self) -> Iterator[Fault]:
        return self._walk(ast.parse(self.text))

    def _place(self, line: int, column: int) -> int:
        """Where a place of the syntax tree, whose columns are bytes, is in the text."""
        return self.begins[line - 1] + len(self.lines[line - 1].encode()[:column].decode())

    def _span(self, node: Any) -> tuple[int, int]:
        return self._place(node.lineno, node.col_offset), self._place(node.end_lineno, node.end_col_offset)

    def _walk(self, node: ast.AST) -> Iterator[Fault]:
        match node:
            case ast.Raise():
                yield "removed statement", *self._span(node), "pass"
                return  # what is inside is its message
            case ast.Assert() | ast.JoinedStr() | ast.Import() | ast.ImportFrom():
                return
            case ast.If(test=ast.Name(id="TYPE_CHECKING")) | ast.Assign(targets=[ast.Name(id="__all__")]):
                return
            case ast.FunctionDef(name="__repr__" | "__str__"):
                return
            case ast.Expr(value=ast.Constant()):
                return
            case ast.keyword(arg=name) if name in GUARDS:
                return
            case (
                ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name))
                | ast.Expr(value=ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)))
            ) if name in SPEECH | UNSAFE:
                return
        yield from self._of(node)
        for name, value in ast.iter_fields(node):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and name not in UNTOUCHED:
                    yield from self._walk(child)

    def _of(self, node: ast.AST) -> Iterator[Fault]:
        match node:
            case ast.Compare(left=left, ops=ops, comparators=others):
                for before, operator, after in zip([left, *others], ops, others, strict=False):
                    yield from self._sign("comparison", before, after, operator)
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as operator, right=right):
                yield from self._sign("+ and -", left, right, operator)
            case ast.BoolOp(op=operator, values=[first, second, *_]):
                yield from self._sign("and, or", first, second, operator)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield "not", *self._span(node), f"({ast.get_source_segment(self.text, operand)})"
            case ast.Constant(value=bool()):
                yield "True, False", *self._span(node), str(not node.value)
            case ast.Constant(value=int() as number):
                yield "constant", *self._span(node), str(number + 1)
            case ast.Name(id="min" | "max" as old):
                yield "min, max", *self._span(node), SWAPS[old]
            case ast.Attribute(attr="min" | "max" | "minimum" | "maximum" | "amin" | "amax" as old):
                yield "min, max", self._span(node)[1] - len(old), self._span(node)[1], SWAPS[old]
            case ast.Return(value=ast.expr() as value) if ast.unparse(value) != "None":
                yield "returned None", *self._span(value), "None"
            case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Continue() | ast.Break():
                yield "removed statement", *self._span(node), "pass"
            case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
                yield "removed statement", *self._span(node), "pass"
            case ast.Call(args=args, keywords=keywords):
                yield from self._keywords(sorted([*args, *keywords], key=lambda part: self._span(part)[0]))

    def _sign(self, kind: str, left: ast.expr, right: ast.expr, operator: ast.AST) -> Iterator[Fault]:
        begin, end, old = self._span(left)[1], self._span(right)[0], SIGNS[type(operator)]
        found = self.text.find(old, begin, end)
        if found >= 0 and "#" not in self.text[begin:end]:
            yield kind, found, found + len(old), SWAPS[old]

    def _keywords(self, given: list[Any]) -> Iterator[Fault]:
        for number, part in enumerate(given):
            if isinstance(part, ast.keyword) and part.arg not in GUARDS | {None}:
                begin = self._span(given[number - 1])[1] if number else self._span(part)[0]
                end = self._span(part)[1] if number or len(given) == 1 else self._span(given[1])[0]
                yield "dropped keyword", begin, end, ""


def sample(place: str) -> list[Mutant]:
    """The mutants of a place: kind after kind in turn, one a line, in an order that a change elsewhere leaves as it is."""
    number, patterns, _ = PLACES[place]
    kinds: dict[str, list[Mutant]] = defaultdict(list)
    for path in sorted({found for pattern in patterns for found in (SOURCE / "vispco").glob(f"{pattern}.py")}):
        text, file = path.read_text(), path.relative_to(SOURCE).as_posix()
        seen: dict[tuple[str, str], int] = defaultdict(int)
        for kind, start, end, new in Faults(text):
            first, last = text.rfind("\n", 0, start) + 1, text.find("\n", end)
            before = " ".join(text[first:last].split())
            after = " ".join((text[first:start] + new + text[end:last]).split())
            seen[before, after] += 1
            key = hashlib.sha256(f"{SEED} {file} {before} {after} {seen[before, after]}".encode()).hexdigest()[:16]
            line = text.count("\n", 0, start) + 1
            kinds[kind].append(Mutant(place, file, line, kind, start, end, new, before, after, key))
    turns = zip_longest(*(sorted(found, key=lambda mutant: mutant.key) for _, found in sorted(kinds.items())))
    chosen: dict[tuple[str, int], Mutant] = {}
    for mutant in filter(None, chain.from_iterable(turns)):
        if len(chosen) < number:
            chosen.setdefault((mutant.file, mutant.line), mutant)
    return list(chosen.values())
