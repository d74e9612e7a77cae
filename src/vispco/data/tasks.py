"""The eight tasks by name, in the order of every table, two more for who asks for them, and how answers are scored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vispco.core.errors import UnknownNameError
from vispco.data.reading import ChartTask, TableTask, WordTask
from vispco.data.reasoning import ComparisonTask, CountingTask
from vispco.data.seeing import AttributeTask, ExistenceTask, PositionTask
from vispco.data.several import ClipTask, PairTask, SeveralTask

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vispco.data.task import Task

ORDER = (AttributeTask, PositionTask, ExistenceTask, CountingTask, ComparisonTask, WordTask, ChartTask, TableTask)
TASKS: dict[str, Task] = {kind.name: kind() for kind in ORDER}
SEVERAL: dict[str, SeveralTask] = {kind.name: kind() for kind in (PairTask, ClipTask)}
"""Tasks about several pictures and videos. They are not among 'all': the shipped models were trained on single pictures."""
TOLERANCE = 0.05  # relaxed accuracy of chart questions: a number may be 5 % off


def task_named(name: str) -> Task | SeveralTask:
    if name in SEVERAL:
        return SEVERAL[name]
    if name not in TASKS:
        raise UnknownNameError("task", name, [*TASKS, *SEVERAL])
    return TASKS[name]


def select(names: str | Iterable[str]) -> list[str]:
    """Task names from "all" (the eight), "word,chart", a group such as "reading" or "several", or a list of any of these."""
    parts = names.split(",") if isinstance(names, str) else list(names)
    chosen: list[str] = []
    for part in (part.strip() for part in parts):
        group = [entry.name for entry in TASKS.values() if part in ("all", entry.group)]
        group += [entry.name for entry in SEVERAL.values() if part == entry.group]
        chosen += [name for name in (group or [task_named(part).name]) if name not in chosen]
    return chosen


def normalize(text: str) -> str:
    """Case, spaces and a closing full stop do not matter."""
    return " ".join(text.strip().lower().rstrip(".").split())


def exact(prediction: str, answer: str) -> float:
    return float(normalize(prediction) == normalize(answer))


def relaxed(prediction: str, answer: str) -> float:
    try:
        given, wanted = float(normalize(prediction).rstrip("%")), float(normalize(answer).rstrip("%"))
    except ValueError:
        return exact(prediction, answer)
    return float(abs(given - wanted) <= TOLERANCE * abs(wanted) + 1e-9)


METRICS = {"exact": exact, "relaxed": relaxed}


def metric(task: str, prediction: str, answer: str) -> float:
    """1.0 if `prediction` answers a question of `task` rightly, else 0.0."""
    return METRICS[task_named(task).metric](prediction, answer)
