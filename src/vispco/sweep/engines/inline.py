"""No workers: every evaluation runs in this process, one after another."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from vispco.sweep.engines.pool import Factory, Outcome, build, evaluate

if TYPE_CHECKING:
    from vispco.schedule import Schedule


class InlinePool:
    """The pool of one, which is ourselves."""

    def __init__(self, factory: Factory) -> None:
        self._evaluator = build(factory)
        self._job: tuple[int, Schedule] | None = None

    @property
    def free(self) -> int:
        return int(self._job is None)

    def submit(self, job: int, schedule: Schedule) -> None:
        self._job = (job, schedule)

    def wait(self, timeout: float) -> list[Outcome]:
        if self._job is None:
            time.sleep(timeout)
            return []
        outcome = evaluate(self._evaluator, *self._job)
        self._job = None
        return [outcome]

    def close(self) -> None:
        self._job = None
