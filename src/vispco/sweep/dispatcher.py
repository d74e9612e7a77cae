"""The loop of a sweep: claim, hand out, enter what comes back, until nothing is left."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from vispco.sweep.progress import OnProgress, Progress, best_per_budget, time_left

if TYPE_CHECKING:
    from pathlib import Path

    from vispco.frontier import Frontier
    from vispco.sweep.trial_queue import Claim, Ledger
    from vispco.sweep.workers.worker_pool import Outcome, Pool

POLL = 0.5  # seconds to wait for an outcome before looking around
SAVE = 5.0  # seconds between two writings of the frontier
RECLAIM = 3.0  # seconds between two searches for what dead sweeps left


class Dispatch:
    """Joins a ledger and a pool of workers."""

    def __init__(self, ledger: Ledger, pool: Pool, path: Path, on_progress: OnProgress | None) -> None:
        self.ledger, self.pool, self.path, self.on_progress = ledger, pool, path, on_progress
        self._held: dict[int, Claim] = {}
        self._began = time.monotonic()
        self._last: dict[str, float] = {}
        self._before: int | None = None  # settled when we began

    def run(self) -> Frontier:
        """Until every configuration is done or has failed, here or elsewhere; the frontier is saved whatever happens."""
        try:
            while not self._finished():
                self._hand_out()
                for outcome in self.pool.wait(POLL):
                    self._enter(outcome)
                if self._due("save", SAVE):
                    self.ledger.frontier().save(self.path)
        finally:
            self.pool.close()
            try:
                self._let_go()
            finally:  # even when the storage is gone
                self.ledger.frontier().save(self.path)
        return self.ledger.frontier()

    def _let_go(self) -> None:
        for claim in self._held.values():
            self.ledger.give_back(claim, "The sweep was stopped.", died=False)
        self._held = {}
        self.ledger.refresh()

    def _hand_out(self) -> None:
        if self._due("reclaim", RECLAIM):
            self.ledger.reclaim()
        while self.pool.free:
            claim = self.ledger.claim()
            if claim is None:
                return
            self._held[claim.number] = claim
            self.pool.submit(claim.number, claim.schedule)

    def _enter(self, outcome: Outcome) -> None:
        claim = self._held.pop(outcome.job)
        if outcome.evaluation is not None:
            self.ledger.record(claim, outcome.evaluation)
        elif outcome.error is not None:
            self.ledger.fail(claim, outcome.error)
        else:
            self.ledger.give_back(claim, "Its worker died.", died=True)

    def _finished(self) -> bool:
        self.ledger.refresh()
        done, failed = self.ledger.counts()
        self._before = done + failed if self._before is None else self._before
        total = self.ledger.plan.total
        if self.on_progress is not None:
            seconds = time.monotonic() - self._began
            eta = time_left(done + failed - self._before, total - done - failed, seconds)
            best = best_per_budget(self.ledger.frontier())
            self.on_progress(Progress(done, failed, len(self._held), total, best, seconds, eta))
        return done + failed >= total

    def _due(self, what: str, every: float) -> bool:
        now = time.monotonic()
        if now - self._last.get(what, -every) < every:
            return False
        self._last[what] = now
        return True
