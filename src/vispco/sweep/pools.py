"""Worker pools of a sweep: `InlinePool` evaluates in this process, `LocalPool` in others, which are replaced when they die."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import pickle
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from vispco.core.errors import VispcoError
from vispco.core.schedule import Schedule
from vispco.evaluation.result import Evaluation, Evaluator

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


def _evaluate(evaluator: Evaluator, job: int, schedule: Schedule) -> Outcome:
    """Run one job. An exception of the evaluator becomes the error of the configuration."""
    try:
        return Outcome(job, evaluation=evaluator(schedule))
    except Exception as error:  # noqa: BLE001  # a failing configuration must not stop a sweep
        last = traceback.format_exception(error)[-6:]
        return Outcome(job, error="".join(last).strip() or repr(error))


def _build(factory: Factory) -> Evaluator:
    """Build the evaluator. A failure is raised at once instead of once for each configuration."""
    try:
        return factory()
    except Exception as error:
        raise WorkerError(f"The evaluator could not be built: {type(error).__name__}: {error}") from error


class InlinePool:
    """Evaluates in this process, one schedule after another. It has the methods of `LocalPool`."""

    def __init__(self, factory: Factory) -> None:
        self._evaluator = _build(factory)
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
        outcome = _evaluate(self._evaluator, *self._job)
        self._job = None
        return [outcome]

    def close(self) -> None:
        self._job = None


_INDEX = "VISPCO_WORKER"  # the number of this worker, which selects its GPU
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_QUIET = "ignore:resource_tracker:UserWarning"  # a killed worker cannot release its semaphores; the tracker does it
_EXIT_SECONDS = 5.0  # how long a worker may take to exit
_MAX_FAILED_STARTS = 3  # workers in a row that may die before one becomes ready
_READY = "ready"
_PR_SET_PDEATHSIG = 1  # of prctl(2)


class LocalPool:
    """`workers` processes, each connected by a pipe. The end of the pipe tells each side that the other one died.

    A worker that dies is replaced, and its job is reported without an outcome.
    """

    def __init__(self, factory: Factory, workers: int) -> None:
        self._factory = factory
        self._context = multiprocessing.get_context("spawn")
        self._failed_starts = 0
        self._workers: list[_Worker] = []
        try:
            for index in range(workers):
                self._workers.append(self._start(index))
        except BaseException:
            self.close()
            raise

    @property
    def free(self) -> int:
        """The number of workers that have built their evaluator and wait for a job."""
        return sum(worker.ready and worker.job is None for worker in self._workers)

    def submit(self, job: int, schedule: Schedule) -> None:
        """Give a job to a free worker."""
        worker = next(w for w in self._workers if w.ready and w.job is None)
        worker.job = job
        try:
            worker.pipe.send((job, schedule))
        except OSError:  # it has just died: the next `wait` reports it
            return

    def wait(self, timeout: float) -> list[Outcome]:
        """The outcomes since the last call; if there are none, those of the next `timeout` seconds."""
        ready = set(wait([worker.pipe for worker in self._workers], timeout))
        outcomes = (self._receive(index) for index, worker in enumerate(self._workers) if worker.pipe in ready)
        return [outcome for outcome in outcomes if outcome is not None]

    def close(self) -> None:
        """Stop all workers at once."""
        for worker in self._workers:
            worker.pipe.close()  # a worker that waits for a job then exits by itself
            if not worker.ready or worker.job is not None:
                worker.process.kill()
        for worker in self._workers:
            worker.process.join(_EXIT_SECONDS)
            worker.process.kill()
            worker.process.join()
        self._workers = []

    def _receive(self, index: int) -> Outcome | None:
        worker = self._workers[index]
        try:
            message = worker.pipe.recv()
        except (EOFError, OSError):
            return self._replace(index)
        if isinstance(message, WorkerError):
            raise message
        if message == _READY:
            worker.ready = True
            self._failed_starts = 0
            return None
        worker.job = None
        outcome: Outcome = message
        return outcome

    def _replace(self, index: int) -> Outcome | None:
        dead = self._workers[index]
        dead.process.kill()
        dead.process.join()
        dead.pipe.close()
        self._failed_starts += not dead.ready
        if self._failed_starts >= _MAX_FAILED_STARTS:
            raise WorkerError(
                f"{_MAX_FAILED_STARTS} workers in a row died before their evaluator was built "
                f"(the last with exit code {dead.process.exitcode}). Is there enough memory for it?"
            )
        self._workers[index] = self._start(index)
        return Outcome(dead.job) if dead.job is not None else None

    def _start(self, index: int) -> _Worker:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_work, args=(theirs, self._factory, index), daemon=True)
        with _environment():
            process.start()
        theirs.close()
        return _Worker(process, ours)


@dataclass(eq=False)
class _Worker:
    process: Any
    pipe: Connection
    ready: bool = False
    job: int | None = None


@contextmanager
def _environment() -> Iterator[None]:
    """Environment in which new processes use one thread each: more threads than cores is ten times slower."""
    warnings = ",".join(filter(None, (os.environ.get("PYTHONWARNINGS"), _QUIET)))
    changed = {**dict.fromkeys(_THREADS, "1"), "PYTHONWARNINGS": warnings}
    before = {name: os.environ.get(name) for name in changed}
    os.environ.update(changed)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _work(pipe: Connection, factory: Factory, index: int) -> None:
    """Build the evaluator, report it, evaluate what arrives, and exit when the pipe is closed."""
    os.environ[_INDEX] = str(index)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the sweep decides what stops
    # Ask the kernel, where it can, to kill this process when the one that started it is killed.
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    try:
        try:
            evaluator = _build(factory)
        except WorkerError as error:
            pipe.send(WorkerError(str(error)))  # without its cause, which may not be picklable
            return
        if "torch" in sys.modules:
            sys.modules["torch"].set_num_threads(1)
        pipe.send(_READY)
        while True:
            outcome = _evaluate(evaluator, *pipe.recv())
            try:
                pipe.send(outcome)
            except (AttributeError, TypeError, pickle.PicklingError) as error:
                pipe.send(Outcome(outcome.job, error=f"Its evaluation cannot be sent: {error}"))
    except (EOFError, OSError):
        return
