"""`WorkerPool`: what a sweep needs from its workers; and `InlinePool`, which evaluates in this process."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from vispco.core.errors import VispcoError
from vispco.evaluation.result import Evaluation, Evaluator

if TYPE_CHECKING:
    from vispco.core.schedule import Schedule

Factory = Callable[[], Evaluator]
"""Builds the evaluator with its model, once in each worker. It is sent there by pickle."""


class WorkerError(VispcoError, RuntimeError):
    """The evaluator could not be built, or every worker dies."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a job: an evaluation or an error of the configuration. With neither, its worker died."""

    job: int
    evaluation: Evaluation | None = None
    error: str | None = None

    @property
    def lost(self) -> bool:
        return self.evaluation is None and self.error is None


class WorkerPool(Protocol):
    """Workers that evaluate schedules. A worker that dies is replaced, and its job is reported as lost."""

    @property
    def free(self) -> int:
        """How many workers have built their evaluator and wait for a job."""

    def submit(self, job: int, schedule: Schedule) -> None:
        """Give a job to a free worker."""

    def wait(self, timeout: float) -> list[Outcome]:
        """Return the outcomes since the last call. If there are none, wait up to `timeout` seconds for one."""

    def close(self) -> None:
        """Stop all workers at once."""


def evaluate(evaluator: Evaluator, job: int, schedule: Schedule) -> Outcome:
    """Run one job. An exception of the evaluator becomes the error of the configuration."""
    try:
        return Outcome(job, evaluation=evaluator(schedule))
    except Exception as error:  # noqa: BLE001  # a failing configuration must not stop a sweep
        last = traceback.format_exception(error)[-6:]
        return Outcome(job, error="".join(last).strip() or repr(error))


def build(factory: Factory) -> Evaluator:
    """Build the evaluator. A failure is raised at once instead of once for each configuration."""
    try:
        return factory()
    except Exception as error:
        raise WorkerError(f"The evaluator could not be built: {type(error).__name__}: {error}") from error


class InlinePool:
    """Evaluates in this process, one schedule after another."""

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
