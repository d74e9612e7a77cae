"""`run`: evaluate the schedules that a strategy asks for, and return their frontier."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vispco.core.errors import InvalidInputError, VispcoError, needs_extra
from vispco.core.runs.checksums import DamagedJournalWarning
from vispco.core.runs.run_folder import RunFolder
from vispco.evaluation.frontier import Axis, Frontier

with needs_extra("Sweeps need Optuna and SQLAlchemy", "search"):
    import optuna
    import sqlalchemy  # noqa: F401 - of the storage

from vispco.sweep.dispatcher import Dispatcher
from vispco.sweep.heartbeat import Heartbeat
from vispco.sweep.spec import SweepSpec, SweepWorkers
from vispco.sweep.storage import JOURNAL, open_storage
from vispco.sweep.study import SweepStudy
from vispco.sweep.trial_queue import TrialQueue

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vispco.sweep.progress import OnProgress
    from vispco.sweep.workers.worker_pool import Factory


WRITTEN = (JOURNAL, f"{JOURNAL}.flock", "*.frontier.json", "*.run.json")  # by sweeps, in their folder
ONE_WORKER = SweepWorkers()


class StorageLostError(VispcoError, ConnectionError):
    """The storage stopped answering during a sweep."""


def run(
    factory: Factory,
    spec: SweepSpec,
    *,
    name: str,
    directory: str | Path | RunFolder,
    storage: str | None = None,
    workers: SweepWorkers = ONE_WORKER,
    fingerprint: Mapping[str, Any] | None = None,
    on_progress: OnProgress | None = None,
) -> Frontier:
    """Evaluate what `spec` says, and return all results of the study `name`.

    factory: builds the evaluator, once in each worker. It must be picklable (a function of a module, not a lambda).
    directory: a new folder, or one that holds sweeps already. Several sweeps share it, also at the same time, each under
    its own name.
    storage: None for `directory`/journal.log, the path of a journal, or an Optuna storage URL that machines share.
    fingerprint: what the results depend on (model, scorer, tasks, samples ...). A study with another one is refused.

    The frontier is saved to `directory`/`name`.frontier.json while the sweep runs. To continue a stopped sweep, call it
    again with the same arguments. Ctrl-C stops the workers, saves the frontier and raises KeyboardInterrupt.
    """
    if not re.fullmatch(r"\w[\w.+-]*", name):
        raise InvalidInputError(f"The name {name!r} was given. Use letters, digits and . _ + - (it names a file).")
    plan = spec.plan()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    folder = RunFolder.of(directory)
    with folder.claim("sweep", {}, shared=True, older=WRITTEN):
        if storage is None:
            folder.declare(JOURNAL, f"{JOURNAL}.flock")
        opened = open_storage(storage, folder.path)
        study = SweepStudy.open(opened, name, spec.identity(fingerprint))
        path = folder.file(f"{name}.frontier.json")
        if opened.damaged_lines:
            warnings.warn(
                f"{opened.damaged_lines} damaged line(s) of {opened.name} were skipped. What they held is evaluated again.",
                DamagedJournalWarning,
                stacklevel=2,
            )
        pool = workers.start(factory)
        try:
            with Heartbeat(study.set_attribute) as heartbeat:
                queue = TrialQueue(study, plan, heartbeat.run, Axis.parse(spec.axis))
                frontier = Dispatcher(queue, pool, path, on_progress).run()
        except optuna.exceptions.StorageInternalError as error:
            raise StorageLostError(
                f"The storage {opened.name} stopped answering. The results so far are in {path}. Run again to continue."
            ) from error
        finally:
            pool.close()
        folder.finish(growing=(JOURNAL, f"{JOURNAL}.flock"), only=f"{name}.")
        return frontier
