"""What a sweep asks of an engine: take a schedule, say what came of it."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from vispco.errors import VispcoError
from vispco.evaluation.result import Evaluation, Evaluator

if TYPE_CHECKING:
    from vispco.schedule import Schedule

Factory = Callable[[], Evaluator]
"""Makes the evaluator, with its model, once in each worker; it travels there by pickle."""


class WorkerError(VispcoError, RuntimeError):
    """The workers cannot work at all: the evaluator could not be built, or every worker dies."""


@dataclass(frozen=True)
class Outcome:
    """What came of a job: an evaluation, an error of the configuration's own, or (neither) its worker died."""

    job: int
    evaluation: Evaluation | None = None
    error: str | None = None

    @property
    def lost(self) -> bool:
        return self.evaluation is None and self.error is None


class Pool(Protocol):
    """Workers that evaluate schedules. A worker that dies is replaced, and its job reported as lost."""

    @property
    def free(self) -> int:
        """Workers that wait for a job, their evaluator built."""

    def submit(self, job: int, schedule: Schedule) -> None:
        """Give a job to a free worker."""

    def wait(self, timeout: float) -> list[Outcome]:
        """Outcomes since the last call; waits for one, but not for longer than `timeout` seconds."""

    def close(self) -> None:
        """Stop all workers, at once."""


def evaluate(evaluator: Evaluator, job: int, schedule: Schedule) -> Outcome:
    """Run one job; whatever the evaluator raises is the configuration's error."""
    try:
        return Outcome(job, evaluation=evaluator(schedule))
    except Exception as error:  # noqa: BLE001  # a sweep goes on whatever a configuration does
        last = traceback.format_exception(error)[-6:]
        return Outcome(job, error="".join(last).strip() or repr(error))


def build(factory: Factory) -> Evaluator:
    """Build the evaluator; its failure is the user's to know at once, not one per configuration."""
    try:
        return factory()
    except Exception as error:
        raise WorkerError(f"The evaluator could not be built: {type(error).__name__}: {error}") from error


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
