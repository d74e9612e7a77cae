"""Names that files of this package declare, read from their text: importing the registries takes seconds, for torch.

A command refuses a misspelt name, completes one and shows its help by these. Where a registry has been imported already,
it answers itself, with what was registered since. Names that other packages add by entry points are those of their entry
points here. A test compares every kind with its registry.
"""

from __future__ import annotations

import ast
import re
import sys
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path

PACKAGE = Path(__file__).parent.parent
WEIGHTS = PACKAGE / "models" / "weights"
IN_CLASS = r'^    name(?:: ClassVar\[str\])? = "([^"]+)"'
REGISTERED_CLASS = r'^@register\nclass [^\n]+\n(?:(?!^@|^class ).*\n)*?    name = "([^"]+)"'


@dataclass(frozen=True)
class Declaration:
    """Where names of a kind are declared.

    registry: module:attribute. files: globs in the package. pattern: its group is a name; without one, the names are the
    texts in the constant of the registry's name, or its keys. group: of entry points.
    """

    kind: str
    registry: str
    files: tuple[str, ...]
    pattern: str | None = IN_CLASS
    group: str | None = None


DECLARATIONS = {
    "scorers": Declaration(
        "scorer",
        "vispco.scorers:SCORERS",
        ("scorers/*.py", "scorers/learned/*.py"),
        REGISTERED_CLASS,
        "vispco.scorers",
    ),
    "kernels": Declaration("kernel", "vispco.kernels:KERNELS", ("kernels/*.py",), group="vispco.kernels"),
    "costs": Declaration("cost", "vispco.cost:COSTS", ("cost/*.py",), group="vispco.costs"),
    "metrics": Declaration(
        "metric", "vispco.metrics:METRICS", ("metrics/*.py",), r'METRICS\.register\(name="([^"]+)"', "vispco.metrics"
    ),
    "benchmarks": Declaration(
        "benchmark",
        "vispco.metrics:BENCHMARKS",
        ("metrics/benchmarks/*.py",),
        r'^    Benchmark\(\s*"([^"]+)"',
        "vispco.benchmarks",
    ),
    "methods": Declaration(
        "method",
        "vispco.presets:PRESETS",
        ("pruner/presets/*.py",),
        r'(?:Preset\(\s*name=|^_published\()"([^"]+)"',
        "vispco.presets",
    ),
    "tasks": Declaration("task", "vispco.data.tasks:TASKS", ("data/seeing.py", "data/reading.py", "data/reasoning.py")),
    "several-tasks": Declaration("task", "vispco.data.tasks:SEVERAL", ("data/several.py",)),
    "protocols": Declaration("protocol", "vispco.metrics.protocols:PROTOCOLS", ("metrics/protocols.py",)),
    "task-groups": Declaration("task", "", ("data/*.py",), r'^    group(?:: ClassVar\[str\])? = "([^"]+)"'),
    "learned": Declaration("method", "", ("scorers/learned/*.py",), REGISTERED_CLASS),
    "searches": Declaration(
        "search",
        "vispco.compare.searches.search_registry:SEARCHES",
        ("compare/searches/*.py",),
        r'^(?:    name: ClassVar\[str\] = |_register\()"([^"]+)"',
        "vispco.searches",
    ),
    "modes": Declaration("mode", "vispco.search.search_spec:SOLVERS", ("search/search_spec.py",), None),
    "strategies": Declaration("strategy", "vispco.sweep.sweep_plan:STRATEGIES", ("sweep/sweep_plan.py",), None),
    "engines": Declaration("engine", "vispco.sweep.spec:ENGINES", ("sweep/spec.py",), None),
    "splits": Declaration("split", "vispco.data.dataset:SPLITS", ("data/dataset.py",), None),
    "dtypes": Declaration("dtype", "vispco.evaluation.spec:DTYPES", ("evaluation/spec.py",), None),
    "allocations": Declaration(
        "allocation",
        "vispco.scorers.allocation:ALLOCATIONS",
        ("scorers/allocation.py",),
        r'^(?:SCORE = |    )"(\w+)"(?:: lambda.*)?$',
    ),
    "models": Declaration(
        "model", "vispco_zoo.definitions:DEFINITIONS", ("../../zoo/vispco_zoo/definitions.py",), None
    ),
    "spaces": Declaration("space", "vispco.sweep.spaces:SPACES", ("sweep/spaces.py",), r'^    name = "([^"]+)"'),
}


def declared_names(kind: str) -> list[str]:
    """The names of a kind ("scorers"), in the order of a registry that is imported, else by their files."""
    where = DECLARATIONS[kind]
    module, _, attribute = where.registry.partition(":")
    loaded = sys.modules.get(module)
    if loaded is not None and hasattr(loaded, attribute):
        return list(getattr(loaded, attribute))
    texts = [path.read_text(encoding="utf-8") for each in where.files for path in sorted(PACKAGE.glob(each))]
    if where.pattern is None:
        return [name for text in texts for name in _constant(text, attribute)]
    found = [name for text in texts for name in re.findall(where.pattern, text, re.MULTILINE)]
    return list(dict.fromkeys([*found, *added_names(kind)]))


def declared_solvers() -> list[str]:
    """The solvers of all modes of a search."""
    text = (PACKAGE / "search" / "search_spec.py").read_text(encoding="utf-8")
    table = ast.literal_eval(_value(text, "SOLVERS"))
    return list(dict.fromkeys(solver for solvers in table.values() for solver in solvers))


def _value(text: str, name: str) -> ast.expr:
    """What a file assigns to a name."""
    for line in ast.parse(text).body:
        targets = line.targets if isinstance(line, ast.Assign) else [getattr(line, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            return line.value  # type: ignore[attr-defined,no-any-return]
    raise KeyError(name)


def _constant(text: str, name: str) -> list[str]:
    value = _value(text, name)
    parts = value.keys if isinstance(value, ast.Dict) else value.elts  # type: ignore[attr-defined]
    return [ast.literal_eval(part) for part in parts if part is not None]


def added_names(kind: str) -> list[str]:
    """The entry points of other packages. What they hold may be called otherwise: only the registry knows."""
    group = DECLARATIONS[kind].group
    return [] if group is None else [point.name for point in entry_points(group=group)]


def shipped_models() -> list[str]:
    """The models of the package, the most used first."""
    return declared_names("models")
