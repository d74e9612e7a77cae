"""`run`: evaluate the schedules that a strategy asks for, and return their frontier."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import optuna

from vispco.errors import InvalidInputError, UnknownNameError, VispcoError
from vispco.frontier import Axis, Frontier
from vispco.run_folder import RunFolder
from vispco.sweep import spaces
from vispco.sweep.cost_range import CostFunction, CostRange
from vispco.sweep.dispatcher import Dispatcher
from vispco.sweep.heartbeat import Heartbeat
from vispco.sweep.storage import JOURNAL, open_storage
from vispco.sweep.study import SweepStudy
from vispco.sweep.sweep_plan import check_plan, make_plan
from vispco.sweep.trial_queue import TrialQueue
from vispco.sweep.workers.local import LocalPool
from vispco.sweep.workers.worker_pool import InlinePool

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vispco.sweep.progress import OnProgress
    from vispco.sweep.workers.worker_pool import Factory, WorkerPool


WRITTEN = (JOURNAL, f"{JOURNAL}.flock", "*.frontier.json", "*.run.json")  # by sweeps, in their folder
ENGINES = ("inline", "local", "ray")


class StorageLostError(VispcoError, ConnectionError):
    """The storage stopped answering during a sweep."""


class DamagedJournalWarning(UserWarning):
    """Some lines of a sweep's journal could not be read and were skipped."""


def run(
    factory: Factory,
    *,
    name: str,
    space: str,
    strategy: str,
    num_layers: int,
    directory: str | Path | RunFolder,
    trials: int | None = None,
    storage: str | None = None,
    workers: int = 1,
    engine: str = "local",
    seed: int = 0,
    fingerprint: Mapping[str, Any] | None = None,
    on_progress: OnProgress | None = None,
    budget: tuple[float, float] | None = None,
    cost: CostFunction | None = None,
    axis: str | Axis = "exact",
    earliest_layer: int = 1,
    ray_address: str | None = None,
    gpus_per_worker: float = 0,
) -> Frontier:
    """Sweep `space` by `strategy`, and return all results of the study `name`.

    factory: builds the evaluator, once in each worker. It must be picklable (a function of a module, not a lambda).
    directory: a new folder, or one that holds sweeps already. Several sweeps share it, also at the same time, each under
    its own name.
    storage: None for `directory`/journal.log, the path of a journal, or an Optuna storage URL that machines share.
    workers: processes (`local`) or actors (`ray`); 0 evaluates in this process (`inline`).
    fingerprint: what the results depend on (model, scorer, tasks, samples ...). A study with another one is refused.
    budget: the lowest and highest cost of a schedule, as fractions that the function `cost` returns.
    axis: the cost that is minimised, and the axis of the returned frontier.
    earliest_layer: the first layer whose input may be pruned, 0 for a scorer that does not need attention.

    The frontier is saved to `directory`/`name`.frontier.json while the sweep runs. To continue a stopped sweep, call it
    again with the same arguments. Ctrl-C stops the workers, saves the frontier and raises KeyboardInterrupt.
    """
    _check(name, engine, workers, seed)
    check_plan(strategy, trials)
    chosen = spaces.get(space, num_layers, earliest_layer)
    axis = Axis.parse(axis)
    cost_range = _cost_range(chosen, budget, cost)
    plan = make_plan(strategy, chosen, trials=trials, seed=seed, cost_range=cost_range)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    identity = {
        "space": space,
        "strategy": strategy,
        "num_layers": num_layers,
        "seed": seed,
        "budget": list(budget) if budget else None,
        "axis": str(axis),
        "fingerprint": dict(fingerprint or {}),
        **({} if earliest_layer == 1 else {"earliest_layer": earliest_layer}),  # studies of earlier versions have none
    }
    folder = RunFolder.of(directory)
    with folder.claim("sweep", {}, shared=True, older=WRITTEN):
        if storage is None:
            folder.declare(JOURNAL, f"{JOURNAL}.flock")
        opened = open_storage(storage, folder.path)
        study = SweepStudy.open(opened, name, identity)
        path = folder.file(f"{name}.frontier.json")
        if opened.damaged_lines:
            warnings.warn(
                f"{opened.damaged_lines} damaged line(s) of {opened.name} were skipped. What they held is evaluated again.",
                DamagedJournalWarning,
                stacklevel=2,
            )
        pool = _make_pool(factory, engine, workers, ray_address, gpus_per_worker)
        try:
            with Heartbeat(study.set_attribute) as heartbeat:
                queue = TrialQueue(study, plan, heartbeat.run, axis)
                frontier = Dispatcher(queue, pool, path, on_progress).run()
        except optuna.exceptions.StorageInternalError as error:
            raise StorageLostError(
                f"The storage {opened.name} stopped answering. The results so far are in {path}. Run again to continue."
            ) from error
        finally:
            pool.close()
        folder.finish(growing=(JOURNAL, f"{JOURNAL}.flock"), only=f"{name}.")
        return frontier


def _check(name: str, engine: str, workers: int, seed: int) -> None:
    if not re.fullmatch(r"\w[\w.+-]*", name):
        raise InvalidInputError(f"The name {name!r} was given. Use letters, digits and . _ + - (it names a file).")
    if engine not in ENGINES:
        raise UnknownNameError("engine", engine, list(ENGINES))
    if workers < 0 or (workers == 0 and engine == "ray"):
        raise InvalidInputError(f"workers={workers} was given for the engine {engine!r}. Give 1 or more.")
    if seed < 0:
        raise InvalidInputError(f"seed={seed} was given. Give 0 or more.")


def _cost_range(space: spaces.Space, budget: tuple[float, float] | None, cost: CostFunction | None) -> CostRange | None:
    if budget is None:
        return None
    if cost is None:
        raise InvalidInputError("A budget was given without `cost`, the function that returns the cost of a schedule.")
    return CostRange(space, float(budget[0]), float(budget[1]), cost)


def _make_pool(factory: Factory, engine: str, workers: int, address: str | None, gpus: float) -> WorkerPool:
    if engine == "ray":
        from vispco.sweep.workers.ray_actors import RayPool  # noqa: PLC0415  # Ray is optional

        return RayPool(factory, workers, address=address, num_gpus=gpus)
    if engine == "inline" or workers == 0:
        return InlinePool(factory)
    return LocalPool(factory, workers)
