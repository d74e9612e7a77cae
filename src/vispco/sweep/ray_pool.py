"""Workers on a Ray cluster: one actor per worker, which holds the evaluator. The queue stays in this process."""

import os
from typing import Any

from vispco.core.errors import InvalidInputError, needs_extra
from vispco.core.schedule import Schedule
from vispco.evaluation.result import Evaluator
from vispco.sweep.pools import Factory, Outcome, WorkerError, build, evaluate
from vispco.sweep.study import connection_problem

_MAX_FAILED_STARTS = 5  # actors in a row that may die before one becomes ready


class _Actor:
    """The part that runs in the cluster."""

    def __init__(self, factory: Factory) -> None:
        self._factory = factory
        self._evaluator: Evaluator | None = None

    def ready(self) -> str | None:
        """Build the evaluator; return what went wrong, or None."""
        try:
            self._evaluator = build(self._factory)
        except WorkerError as error:
            return str(error)
        return None

    def run(self, job: int, schedule: Schedule) -> Outcome:
        if self._evaluator is None:
            raise RuntimeError("ready() comes first.")
        return evaluate(self._evaluator, job, schedule)


class RayPool:
    """`workers` actors, each with its CPUs and GPUs. An actor that dies is replaced, if need be on another node."""

    def __init__(
        self, factory: Factory, workers: int, *, address: str | None = None, num_cpus: float = 1, num_gpus: float = 0
    ) -> None:
        with needs_extra("The engine 'ray' needs Ray", "ray"):
            import ray  # noqa: PLC0415  # optional, and slow to import
            import ray.exceptions  # noqa: PLC0415
        self._ray = ray
        self._ours = _connect(self._ray, address)
        # Refuse actors that fit nowhere, because Ray would wait for them forever.
        there = self._ray.cluster_resources()
        wanted = {"CPU": num_cpus, "GPU": num_gpus}
        for kind, amount in wanted.items():
            if amount > there.get(kind, 0.0):
                raise InvalidInputError(
                    f"Each worker asks for {amount:g} {kind}, and the whole Ray cluster has {there.get(kind, 0.0):g}."
                )
        self._factory = self._ray.put(factory)
        self._kind = self._ray.remote(num_cpus=num_cpus, num_gpus=num_gpus, max_restarts=0)(_Actor)
        self._free: list[Any] = []
        self._busy: dict[Any, tuple[Any, int | None]] = {}  # what we wait for -> actor, job (None: being built)
        self._failed_starts = 0
        for _ in range(workers):
            self._start()

    @property
    def free(self) -> int:
        return len(self._free)

    def submit(self, job: int, schedule: Schedule) -> None:
        actor = self._free.pop()
        self._busy[actor.run.remote(job, schedule)] = (actor, job)

    def wait(self, timeout: float) -> list[Outcome]:
        done, _ = self._ray.wait(list(self._busy), num_returns=1, timeout=timeout)
        outcomes = (self._receive(reference) for reference in done)
        return [outcome for outcome in outcomes if outcome is not None]

    def close(self) -> None:
        for actor in [*self._free, *(actor for actor, _ in self._busy.values())]:
            self._ray.kill(actor)
        self._free, self._busy = [], {}
        if self._ours:
            self._ray.shutdown()

    def _start(self) -> None:
        actor = self._kind.remote(self._factory)
        self._busy[actor.ready.remote()] = (actor, None)

    def _receive(self, reference: Any) -> Outcome | None:
        actor, job = self._busy.pop(reference)
        try:
            answer = self._ray.get(reference)
        except self._ray.exceptions.RayActorError as error:
            return self._replace(actor, job, error)
        except self._ray.exceptions.RayTaskError as error:  # the actor lives; its answer could not be sent
            if job is None:
                return self._replace(actor, job, error)
            answer = Outcome(job, error=f"Its evaluation cannot be sent: {error}")
        except self._ray.exceptions.RayError as error:
            return self._replace(actor, job, error)
        if job is None and answer is not None:
            raise WorkerError(answer)
        self._failed_starts = 0
        self._free.append(actor)
        return answer if job is not None else None

    def _replace(self, actor: Any, job: int | None, error: Exception) -> Outcome | None:
        self._ray.kill(actor)  # if only the connection failed, it must not run in parallel with its successor
        self._failed_starts += job is None
        if self._failed_starts >= _MAX_FAILED_STARTS:
            why = str(error).strip().splitlines()[-1].strip()
            raise WorkerError(f"{_MAX_FAILED_STARTS} Ray actors in a row died before their evaluator was built: {why}")
        self._start()
        return Outcome(job) if job is not None else None


def _connect(ray: Any, address: str | None) -> bool:
    """Join the cluster at `address` (or start one here). Return whether this process must leave it later."""
    if ray.is_initialized():
        return False
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        why = connection_problem(host, int(port), grpc=os.environ.get("RAY_USE_TLS") != "1")
        if why is not None:
            raise InvalidInputError(f"No Ray cluster answers at {address}: {why}. Is `ray start --head` running there?")
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR", configure_logging=False)
    except Exception as error:
        why = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise InvalidInputError(f"The Ray cluster at {address or 'this machine'} could not be joined: {why}") from error
    return True
