"""`run`: evaluate the schedules that a strategy asks for, and return their frontier."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import optuna

from vispco.errors import InvalidInputError, UnknownNameError, VispcoError
from vispco.frontier import Axis, Frontier
from vispco.sweep import spaces
from vispco.sweep import sweep_plan as plans
from vispco.sweep.cost_range import Cost, Window
from vispco.sweep.dispatcher import Dispatch
from vispco.sweep.heartbeat import Pulse
from vispco.sweep.storage import open_store
from vispco.sweep.study import Book, open_study
from vispco.sweep.trial_queue import Ledger
from vispco.sweep.workers.local import LocalPool
from vispco.sweep.workers.worker_pool import InlinePool

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vispco.sweep.progress import OnProgress
    from vispco.sweep.workers.worker_pool import Factory, Pool


ENGINES = ("inline", "local", "ray")


class StorageLostError(VispcoError, ConnectionError):
    """The storage went away in the middle of a sweep."""


def run(
    factory: Factory,
    *,
    name: str,
    space: str,
    strategy: str,
    num_layers: int,
    directory: str | Path,
    trials: int | None = None,
    storage: str | None = None,
    workers: int = 1,
    engine: str = "local",
    seed: int = 0,
    fingerprint: Mapping[str, Any] | None = None,
    on_progress: OnProgress | None = None,
    budget: tuple[float, float] | None = None,
    cost: Cost | None = None,
    axis: str | Axis = "exact",
    ray_address: str | None = None,
    gpus_per_worker: float = 0,
) -> Frontier:
    """Sweep `space` by `strategy`, and return everything that the study `name` has found.

    factory: builds the evaluator, once in each worker; picklable (a function of a module, not a lambda).
    storage: None for `directory`/journal.log, the path of a journal, or an Optuna storage URL that machines share.
    workers: processes (`local`) or actors (`ray`); 0 runs in this process (`inline`).
    fingerprint: what the results depend on (model, scorer, tasks, samples ...); a study with another one is refused.
    budget: the range of cost, as fractions by the function `cost`, that every schedule must lie in.
    axis: the cost that is minimised, and that of the frontier returned.

    The frontier is in `directory`/`name`.frontier.json all along; run again with the same arguments to go on after a
    stop of any kind. Ctrl-C stops the workers, saves, and raises KeyboardInterrupt.
    """
    _check(name, engine, workers, seed)
    plans.check(strategy, trials)
    chosen = spaces.get(space, num_layers)
    axis = Axis.parse(axis)
    window = _window(chosen, budget, cost)
    plan = plans.make(strategy, chosen, trials=trials, seed=seed, window=window)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    store = open_store(storage, Path(directory))
    identity = {
        "space": space,
        "strategy": strategy,
        "num_layers": num_layers,
        "seed": seed,
        "budget": list(budget) if budget else None,
        "axis": str(axis),
        "fingerprint": dict(fingerprint or {}),
    }
    path = Path(directory) / f"{name}.frontier.json"
    book = Book(open_study(store, name, identity), store)
    pool = _pool(factory, engine, workers, ray_address, gpus_per_worker)
    try:
        with Pulse(book.say) as pulse:
            ledger = Ledger(book, plan, pulse.run, axis)
            return Dispatch(ledger, pool, path, on_progress).run()
    except optuna.exceptions.StorageInternalError as error:
        raise StorageLostError(
            f"The storage {store.name} stopped answering. What was found until then is in {path}; run again to go on."
        ) from error
    finally:
        pool.close()


def _check(name: str, engine: str, workers: int, seed: int) -> None:
    if not re.fullmatch(r"\w[\w.+-]*", name):
        raise InvalidInputError(f"The name {name!r} was given. Use letters, digits and . _ + - (it names a file).")
    if engine not in ENGINES:
        raise UnknownNameError("engine", engine, list(ENGINES))
    if workers < 0 or (workers == 0 and engine == "ray"):
        raise InvalidInputError(f"workers={workers} was given for the engine {engine!r}. Give 1 or more.")
    if seed < 0:
        raise InvalidInputError(f"seed={seed} was given. Give 0 or more.")


def _window(space: spaces.Space, budget: tuple[float, float] | None, cost: Cost | None) -> Window | None:
    if budget is None:
        return None
    if cost is None:
        raise InvalidInputError("A budget was given without `cost`, the function that says what a schedule costs.")
    return Window(space, float(budget[0]), float(budget[1]), cost)


def _pool(factory: Factory, engine: str, workers: int, address: str | None, gpus: float) -> Pool:
    if engine == "ray":
        from vispco.sweep.workers.ray_actors import RayPool  # noqa: PLC0415  # Ray is optional

        return RayPool(factory, workers, address=address, num_gpus=gpus)
    if engine == "inline" or workers == 0:
        return InlinePool(factory)
    return LocalPool(factory, workers)
