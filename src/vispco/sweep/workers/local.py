"""Worker processes on this machine, each with one thread and its own evaluator."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import pickle
import signal
import sys
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any

from vispco.sweep.workers.worker_pool import Factory, Outcome, WorkerError, build, evaluate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vispco.core.schedule import Schedule

INDEX = "VISPCO_WORKER"  # the number of this worker, which selects its GPU
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
QUIET = "ignore:resource_tracker:UserWarning"  # a killed worker cannot release its semaphores; the tracker does it
EXIT_SECONDS = 5.0  # how long a worker may take to exit
MAX_FAILED_STARTS = 3  # so many workers in a row may die before one becomes ready
READY = "ready"
PR_SET_PDEATHSIG = 1  # of prctl(2)


class LocalPool:
    """`workers` processes, each connected by a pipe. The end of the pipe tells each side that the other one died."""

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
        return sum(worker.ready and worker.job is None for worker in self._workers)

    @property
    def pids(self) -> list[int]:
        return [worker.process.pid for worker in self._workers if worker.process.pid is not None]

    def submit(self, job: int, schedule: Schedule) -> None:
        worker = next(w for w in self._workers if w.ready and w.job is None)
        worker.job = job
        try:
            worker.pipe.send((job, schedule))
        except OSError:  # it has just died: the next `wait` reports it
            return

    def wait(self, timeout: float) -> list[Outcome]:
        ready = set(wait([worker.pipe for worker in self._workers], timeout))
        outcomes = (self._receive(index) for index, worker in enumerate(self._workers) if worker.pipe in ready)
        return [outcome for outcome in outcomes if outcome is not None]

    def close(self) -> None:
        for worker in self._workers:
            worker.pipe.close()  # a worker that waits for a job then exits by itself
            if not worker.ready or worker.job is not None:
                worker.process.kill()
        for worker in self._workers:
            worker.process.join(EXIT_SECONDS)
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
        if message == READY:
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
        if self._failed_starts >= MAX_FAILED_STARTS:
            raise WorkerError(
                f"{MAX_FAILED_STARTS} workers in a row died before their evaluator was built "
                f"(the last with exit code {dead.process.exitcode}). Is there enough memory for it?"
            )
        self._workers[index] = self._start(index)
        return Outcome(dead.job) if dead.job is not None else None

    def _start(self, index: int) -> _Worker:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_work, args=(theirs, self._factory, index), daemon=True)
        with environment():
            process.start()
        theirs.close()
        return _Worker(process, ours)


class _Worker:
    def __init__(self, process: Any, pipe: Connection) -> None:
        self.process, self.pipe = process, pipe
        self.ready = False
        self.job: int | None = None


@contextmanager
def environment() -> Iterator[None]:
    """Environment in which new processes use one thread each: more threads than cores is ten times slower."""
    warnings = ",".join(filter(None, (os.environ.get("PYTHONWARNINGS"), QUIET)))
    changed = {**dict.fromkeys(THREADS, "1"), "PYTHONWARNINGS": warnings}
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


def die_with_parent() -> None:
    """Ask the kernel, where it can, to kill this process when the one that started it is killed."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _work(pipe: Connection, factory: Factory, index: int) -> None:
    """Build the evaluator, report it, evaluate what arrives, and exit when the pipe is closed."""
    os.environ[INDEX] = str(index)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the sweep decides what stops
    die_with_parent()
    try:
        try:
            evaluator = build(factory)
        except WorkerError as error:
            pipe.send(WorkerError(str(error)))  # without its cause, which may not be picklable
            return
        if "torch" in sys.modules:
            sys.modules["torch"].set_num_threads(1)
        pipe.send(READY)
        while True:
            outcome = evaluate(evaluator, *pipe.recv())
            try:
                pipe.send(outcome)
            except (AttributeError, TypeError, pickle.PicklingError) as error:
                pipe.send(Outcome(outcome.job, error=f"Its evaluation cannot be sent: {error}"))
    except (EOFError, OSError):
        return
