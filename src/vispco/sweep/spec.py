"""What a sweep tries (`SweepSpec`), and who evaluates it (`SweepWorkers`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vispco.core.errors import InvalidInputError, UnknownNameError
from vispco.evaluation.frontier import Axis
from vispco.sweep import spaces
from vispco.sweep.cost_range import CostFunction, CostRange
from vispco.sweep.sweep_plan import SweepPlan, check_plan, make_plan
from vispco.sweep.workers.local import LocalPool
from vispco.sweep.workers.worker_pool import InlinePool

if TYPE_CHECKING:
    from vispco.sweep.workers.worker_pool import Factory, WorkerPool

ENGINES = ("inline", "local", "ray")


@dataclass(frozen=True, kw_only=True)
class SweepSpec:
    """Which schedules a sweep evaluates, and in which order.

    space: 'single', 'stages', 'kernel:NAME' or 'free'. strategy: 'grid', 'random', 'tpe' or 'nsga2'.
    num_layers: of the model. earliest_layer: the first one whose input may be pruned; 0 for a scorer that does not need
        attention.
    trials: how many schedules; a grid has its own number.
    budget: the lowest and highest cost of a schedule, as fractions that the function `cost` returns.
    axis: the cost that is minimised, and the axis of the frontier.
    """

    space: str
    strategy: str
    num_layers: int
    trials: int | None = None
    seed: int = 0
    budget: tuple[float, float] | None = None
    cost: CostFunction | None = None
    axis: str | Axis = "exact"
    earliest_layer: int = 1

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise InvalidInputError(f"seed={self.seed} was given. Give 0 or more.")
        check_plan(self.strategy, self.trials)

    def plan(self) -> SweepPlan:
        """The configurations, as a list if they are known from the start."""
        space = spaces.get(self.space, self.num_layers, self.earliest_layer)
        within = None
        if self.budget is not None:
            if self.cost is None:
                raise InvalidInputError(
                    "A budget was given without `cost`, the function that returns the cost of a schedule."
                )
            within = CostRange(space, float(self.budget[0]), float(self.budget[1]), self.cost)
        return make_plan(self.strategy, space, trials=self.trials, seed=self.seed, cost_range=within)

    def identity(self, fingerprint: Mapping[str, Any] | None) -> dict[str, Any]:
        """What must be the same for a study to be continued; fingerprint: what its results depend on besides."""
        return {
            "space": self.space,
            "strategy": self.strategy,
            "num_layers": self.num_layers,
            "seed": self.seed,
            "budget": list(self.budget) if self.budget else None,
            "axis": str(Axis.parse(self.axis)),
            "fingerprint": dict(fingerprint or {}),
            # studies of earlier versions have none
            **({} if self.earliest_layer == 1 else {"earliest_layer": self.earliest_layer}),
        }


@dataclass(frozen=True)
class SweepWorkers:
    """Who evaluates.

    number: processes (`local`) or actors (`ray`); 0 evaluates in this process. engine: 'inline', 'local' or 'ray'.
    ray_address: of a running cluster. gpus: of each actor, a part of one is possible.
    """

    number: int = 1
    engine: str = "local"
    ray_address: str | None = None
    gpus: float = 0

    def __post_init__(self) -> None:
        if self.engine not in ENGINES:
            raise UnknownNameError("engine", self.engine, list(ENGINES))
        if self.number < 0 or (self.number == 0 and self.engine == "ray"):
            raise InvalidInputError(f"workers={self.number} was given for the engine {self.engine!r}. Give 1 or more.")

    def start(self, factory: Factory) -> WorkerPool:
        """A pool whose workers each build their evaluator by `factory`."""
        if self.engine == "ray":
            from vispco.sweep.workers.ray_actors import RayPool  # noqa: PLC0415  # Ray is optional

            return RayPool(factory, self.number, address=self.ray_address, num_gpus=self.gpus)
        if self.engine == "inline" or self.number == 0:
            return InlinePool(factory)
        return LocalPool(factory, self.number)
