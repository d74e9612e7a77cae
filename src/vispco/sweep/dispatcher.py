"""The main loop of a sweep: take configurations from the queue, give them to workers, record the outcomes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from vispco.sweep.progress import OnProgress, Progress, best_per_budget, time_left

if TYPE_CHECKING:
    from pathlib import Path

    from vispco.evaluation.frontier import Frontier
    from vispco.sweep.trial_queue import Claim, TrialQueue
    from vispco.sweep.workers.worker_pool import Outcome, WorkerPool

POLL_SECONDS = 0.5  # how long to wait for an outcome
SAVE_SECONDS = 5.0  # how often the frontier is saved
REQUEUE_SECONDS = 3.0  # how often abandoned configurations are looked for


class Dispatcher:
    """Connects a trial queue and a pool of workers."""

    def __init__(self, queue: TrialQueue, pool: WorkerPool, path: Path, on_progress: OnProgress | None) -> None:
        self.queue, self.pool, self.path, self.on_progress = queue, pool, path, on_progress
        self._claims: dict[int, Claim] = {}
        self._start_time = time.monotonic()
        self._last_done: dict[str, float] = {}
        self._settled_at_start: int | None = None

    def run(self) -> Frontier:
        """Run until every configuration is done or has failed, here or elsewhere. The frontier is saved in any case."""
        try:
            while not self._finished():
                self._submit()
                for outcome in self.pool.wait(POLL_SECONDS):
                    self._record(outcome)
                if self._due("save", SAVE_SECONDS):
                    self.queue.frontier().save(self.path)
        finally:
            self.pool.close()
            try:
                self._release()
            finally:  # even when the storage is gone
                self.queue.frontier().save(self.path)
        return self.queue.frontier()

    def _release(self) -> None:
        for claim in self._claims.values():
            self.queue.requeue(claim, "The sweep was stopped.", died=False)
        self._claims = {}
        self.queue.refresh()

    def _submit(self) -> None:
        if self._due("requeue", REQUEUE_SECONDS):
            self.queue.requeue_abandoned()
        while self.pool.free:
            claim = self.queue.claim()
            if claim is None:
                return
            self._claims[claim.number] = claim
            self.pool.submit(claim.number, claim.schedule)

    def _record(self, outcome: Outcome) -> None:
        claim = self._claims.pop(outcome.job)
        if outcome.evaluation is not None:
            self.queue.record(claim, outcome.evaluation)
        elif outcome.error is not None:
            self.queue.fail(claim, outcome.error)
        else:
            self.queue.requeue(claim, "Its worker died.", died=True)

    def _finished(self) -> bool:
        self.queue.refresh()
        done, failed = self.queue.counts()
        self._settled_at_start = done + failed if self._settled_at_start is None else self._settled_at_start
        total = self.queue.plan.total
        if self.on_progress is not None:
            seconds = time.monotonic() - self._start_time
            eta = time_left(done + failed - self._settled_at_start, total - done - failed, seconds)
            best = best_per_budget(self.queue.frontier())
            self.on_progress(Progress(done, failed, len(self._claims), total, best, seconds, eta))
        return done + failed >= total

    def _due(self, action: str, interval: float) -> bool:
        now = time.monotonic()
        if now - self._last_done.get(action, -interval) < interval:
            return False
        self._last_done[action] = now
        return True
