"""Running a sweep: the main loop between queue and workers, `run` for any evaluator, `sweep` for a loaded model."""

import hashlib
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from vispco.core.errors import InvalidInputError, VispcoError, needs_extra
from vispco.core.runs.run_folder import RunFolder
from vispco.evaluation.evaluator import TaskEvaluator
from vispco.evaluation.frontier import Frontier, Point
from vispco.evaluation.sample_sizes import SampleSizes
from vispco.scorers import ChainLike

with needs_extra("Sweeps need Optuna and SQLAlchemy", "search"):
    import optuna
    import sqlalchemy  # noqa: F401 - of the storage

from vispco.data.sample import Sample
from vispco.sweep.heartbeat import Heartbeat
from vispco.sweep.pools import Factory, InlinePool, LocalPool
from vispco.sweep.spec import SweepSpec
from vispco.sweep.study import JOURNAL, WRITTEN, SweepStudy, open_storage
from vispco.sweep.trial_queue import Claim, TrialQueue

_POLL_SECONDS = 0.5  # how long to wait for an outcome
_SAVE_SECONDS = 5.0  # how often the frontier is saved
_REQUEUE_SECONDS = 3.0  # how often abandoned configurations are looked for
_BUDGETS = (0.25, 0.5, 0.75, 1.0)  # the best point within each is shown


@dataclass(frozen=True)
class Progress:
    """Numbers of configurations, the best point within each budget, and elapsed and remaining seconds."""

    done: int
    failed: int
    running: int
    total: int
    best: dict[float, Point]
    seconds: float
    eta: float | None

    @property
    def settled(self) -> int:
        return self.done + self.failed

    @property
    def line(self) -> str:
        """The numbers of configurations, and the best accuracy within each budget."""
        line = f"{self.settled}/{self.total} configurations, {self.running} running"
        line += f", {self.failed} failed" if self.failed else ""
        best = ", ".join(f"{budget:.0%}: {point.accuracy:.4f}" for budget, point in sorted(self.best.items()))
        return f"{line}; best by budget: {best}" if best else line


OnProgress = Callable[[Progress], None]


class Dispatcher:
    """Connects a trial queue and a pool of workers."""

    def __init__(
        self, queue: TrialQueue, pool: InlinePool | LocalPool, path: Path, on_progress: OnProgress | None
    ) -> None:
        self.queue, self.pool, self.path, self.on_progress = queue, pool, path, on_progress
        self._claims: dict[int, Claim] = {}
        self._start_time = time.monotonic()
        self._last_done: dict[str, float] = {}
        self._settled_at_start: int | None = None

    def run(self) -> Frontier:
        """Run until every configuration is done or has failed, here or elsewhere. The frontier is saved in any case."""
        try:
            while not self._finished():
                if self._due("requeue", _REQUEUE_SECONDS):
                    self.queue.requeue_abandoned()
                while self.pool.free and (claim := self.queue.claim()) is not None:
                    self._claims[claim.number] = claim
                    self.pool.submit(claim.number, claim.schedule)
                for outcome in self.pool.wait(_POLL_SECONDS):
                    claim = self._claims.pop(outcome.job)
                    if outcome.evaluation is not None:
                        self.queue.record(claim, outcome.evaluation)
                    elif outcome.error is not None:
                        self.queue.fail(claim, outcome.error)
                    else:
                        self.queue.requeue(claim, "Its worker died.", died=True)
                if self._due("save", _SAVE_SECONDS):
                    self.queue.frontier().save(self.path)
        finally:
            self.pool.close()
            try:
                for claim in self._claims.values():
                    self.queue.requeue(claim, "The sweep was stopped.", died=False)
                self._claims = {}
                self.queue.refresh()
            finally:  # even when the storage is gone
                self.queue.frontier().save(self.path)
        return self.queue.frontier()

    def _finished(self) -> bool:
        self.queue.refresh()
        done, failed = self.queue.counts()
        self._settled_at_start = done + failed if self._settled_at_start is None else self._settled_at_start
        total = self.queue.plan.total
        if self.on_progress is not None:
            seconds = time.monotonic() - self._start_time
            settled = done + failed - self._settled_at_start
            eta = seconds / settled * (total - done - failed) if settled else None
            frontier, best = self.queue.frontier(), {}
            for budget in _BUDGETS:
                with suppress(InvalidInputError):  # no point is that cheap yet
                    best[budget] = frontier.pick(budget)
            self.on_progress(Progress(done, failed, len(self._claims), total, best, seconds, eta))
        return done + failed >= total

    def _due(self, action: str, interval: float) -> bool:
        now = time.monotonic()
        if now - self._last_done.get(action, -interval) < interval:
            return False
        self._last_done[action] = now
        return True


class _StorageLostError(VispcoError, ConnectionError):
    """The storage stopped answering during a sweep."""


def run(
    factory: Factory,
    spec: SweepSpec,
    *,
    name: str,
    directory: str | Path | RunFolder,
    storage: str | None = None,
    workers: int = 1,
    fingerprint: Mapping[str, Any] | None = None,
    on_progress: OnProgress | None = None,
) -> Frontier:
    """Evaluate what `spec` says, and return all results of the study `name`.

    factory: builds the evaluator, once in each worker. It must be picklable (a function of a module, not a lambda).
    directory: a new folder, or one that holds sweeps already. Several sweeps share it, also at the same time, each under
    its own name.
    storage: None for `directory`/journal.log, the path of a journal, or an Optuna storage URL that machines share.
    workers: processes; 0 evaluates in this one.
    fingerprint: what the results depend on (model, scorer, tasks, samples ...). A study with another one is refused.

    The frontier is saved to `directory`/`name`.frontier.json while the sweep runs. To continue a stopped sweep, call it
    again with the same arguments. Ctrl-C stops the workers, saves the frontier and raises KeyboardInterrupt.
    """
    if not re.fullmatch(r"\w[\w.+-]*", name):
        raise InvalidInputError(f"The name {name!r} was given. Use letters, digits and . _ + - (it names a file).")
    if workers < 0:
        raise InvalidInputError(f"workers={workers} was given. Give 0 or more.")
    plan = spec.plan()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    folder = RunFolder.of(directory)
    with folder.claim("sweep", {}, shared=True, accepted=WRITTEN):
        if storage is None:
            folder.declare(JOURNAL, f"{JOURNAL}.flock")
        opened = open_storage(storage, folder.path)
        study = SweepStudy.open(opened, name, spec.identity(fingerprint))
        path = folder.file(f"{name}.frontier.json")
        pool = LocalPool(factory, workers) if workers else InlinePool(factory)
        try:
            with Heartbeat(study.set_attribute) as heartbeat:
                queue = TrialQueue(study, plan, heartbeat.run)
                frontier = Dispatcher(queue, pool, path, on_progress).run()
        except optuna.exceptions.StorageInternalError as error:
            raise _StorageLostError(
                f"The storage {opened.name} stopped answering. The results so far are in {path}. Run again to continue."
            ) from error
        finally:
            pool.close()
        folder.finish(growing=(JOURNAL, f"{JOURNAL}.flock"), only=f"{name}.")
        return frontier


_SHARED_BYTES = 1 << 30  # of unpruned runs that are kept, so that later schedules resume from them


def sweep(
    model: Any,
    processor: Any,
    samples: Sequence[Sample],
    *,
    scorer: ChainLike = "fastv",
    space: str = "single",
    strategy: str = "grid",
    trials: int | None = None,
    budget: tuple[float, float] | None = None,
    directory: str | Path | None = None,
    kl: bool = False,
    seed: int = 0,
    progress: OnProgress | None = None,
) -> Frontier:
    """Evaluate the schedules of a space, and return them as a frontier.

    model, processor: as `vispco.load` returns them.
    samples: what every schedule is evaluated on.
    space: 'single', 'stages', 'kernel:NAME' or 'free'.
    strategy: 'grid', 'random', 'tpe' or 'nsga2'.
    trials: how many schedules; a grid has its own number.
    budget: (low, high), the range of cost that every schedule must lie in, as fractions of the unpruned FLOPs.
    directory: for the journal and the frontier; call again with the same arguments to continue a sweep that was stopped. None keeps
    nothing.
    progress: called with a `vispco.sweep.Progress` after each schedule.

    For several processes or machines, use `vispco.sweep.run` with an `EvaluatorSpec`.
    """
    evaluator = TaskEvaluator(model, processor, samples, scorer, kl=kl, batch_size=32, share=_SHARED_BYTES)
    with ExitStack() as stack:
        folder = directory if directory is not None else stack.enter_context(TemporaryDirectory())
        spec = SweepSpec(
            space=space,
            strategy=strategy,
            num_layers=evaluator.num_layers,
            trials=trials,
            seed=seed,
            budget=budget,
            cost=None if budget is None else SampleSizes.of(evaluator).fraction,
            earliest_layer=evaluator.scorer.earliest_layer,
        )
        # Everything that the results depend on: a journal of another model, scorer or sample list is refused.
        config, ids = evaluator.model.config, "\n".join(f"{sample.task} {sample.id}" for sample in evaluator.samples)
        return run(
            lambda: evaluator,
            spec,
            name="sweep",
            directory=folder,
            workers=0,
            fingerprint={
                "model": str(getattr(config, "name_or_path", "")) or type(evaluator.model).__name__,
                "scorer": evaluator.scorer.to_dict(),
                "samples": hashlib.sha256(ids.encode()).hexdigest()[:16],
                "kl": evaluator.options.kl,
            },
            on_progress=progress,
        )
