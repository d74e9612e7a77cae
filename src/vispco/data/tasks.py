"""The eight tasks by name, in the order of every table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vispco.data import attribute, chart, comparison, counting, existence, position, table, word
from vispco.errors import UnknownNameError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vispco.data.sample import Task

TASKS: dict[str, Task] = {
    module.TASK.name: module.TASK
    for module in (attribute, position, existence, counting, comparison, word, chart, table)
}


def task(name: str) -> Task:
    if name not in TASKS:
        raise UnknownNameError("task", name, list(TASKS))
    return TASKS[name]


def select(names: str | Iterable[str]) -> list[str]:
    """Task names from "all", "word,chart", a group such as "reading", or a list of any of these."""
    parts = names.split(",") if isinstance(names, str) else list(names)
    chosen: list[str] = []
    for part in (part.strip() for part in parts):
        group = [entry.name for entry in TASKS.values() if part in ("all", entry.group)]
        chosen += [name for name in (group or [task(part).name]) if name not in chosen]
    return chosen
