"""`SweepSpec`: the configurations of a sweep, a fixed list (grid, random) or one after another (tpe, nsga2)."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vispco.core.errors import InvalidInputError, UnknownNameError
from vispco.evaluation.frontier import Axis
from vispco.sweep import spaces
from vispco.sweep.spaces import CostFunction, CostRange

if TYPE_CHECKING:
    import optuna

    from vispco.sweep.spaces import Params, Space

_STRATEGIES = ("grid", "random", "tpe", "nsga2")


@dataclass(frozen=True)
class SweepPlan:
    """`total` configurations, named STRATEGY:0, STRATEGY:1, ...; `fixed` lists them if they are known from the start."""

    strategy: str
    space: Space
    total: int
    seed: int
    fixed: tuple[Params, ...] | None = None
    cost_range: CostRange | None = None

    def name(self, index: int) -> str:
        return f"{self.strategy}:{index}"

    def sampler(self, index: int) -> optuna.samplers.BaseSampler:
        """Return the sampler of one configuration, seeded by its index.

        Its suggestion depends only on the history of the study, the seed and the index. A killed sweep therefore
        continues as if it had not been killed, and two machines on one study never draw the same numbers.
        """
        import optuna  # noqa: PLC0415 - an extra

        seed = zlib.crc32(f"{self.seed}:{index}".encode())
        if self.strategy == "tpe":
            return optuna.samplers.TPESampler(seed=seed, multivariate=True)
        population = max(4, min(50, self.total // 4))  # Optuna's 50, or four generations of a short sweep
        return optuna.samplers.NSGAIISampler(seed=seed, population_size=population)

    def suggest(self, trial: optuna.Trial, index: int) -> Params:
        """Return what the sampler suggests for a trial, moved into the cost range if there is one."""
        params = self.space.suggest(trial)
        if self.cost_range is None:
            return params
        return self.cost_range.fit(params, np.random.default_rng((self.seed, index)))


@dataclass(frozen=True, kw_only=True)
class SweepSpec:
    """The schedules that a sweep evaluates, and their order.

    space: 'single', 'stages', 'kernel:NAME' or 'free'. strategy: 'grid', 'random', 'tpe' or 'nsga2'.
    num_layers: of the model. earliest_layer: the first one whose input may be pruned; 0 for a scorer that does not need
        attention.
    trials: how many schedules; a grid has its own number.
    budget: the lowest and highest cost of a schedule, as fractions that the function `cost` returns.
    """

    space: str
    strategy: str
    num_layers: int
    trials: int | None = None
    seed: int = 0
    budget: tuple[float, float] | None = None
    cost: CostFunction | None = None
    earliest_layer: int = 1

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise InvalidInputError(f"seed={self.seed} was given. Give 0 or more.")
        if self.strategy not in _STRATEGIES:
            raise UnknownNameError("strategy", self.strategy, list(_STRATEGIES))
        if self.trials is not None and self.trials < 1:
            raise InvalidInputError(f"trials={self.trials} was given. A sweep needs at least one.")
        if self.trials is None and self.strategy != "grid":
            raise InvalidInputError(f"The strategy {self.strategy!r} has no end of its own: say how many trials.")

    def plan(self) -> SweepPlan:
        """The configurations, as a list if they are known from the start."""
        space, within = spaces.get(self.space, self.num_layers, self.earliest_layer), None
        if self.budget is not None:
            if self.cost is None:
                raise InvalidInputError(
                    "A budget was given without `cost`, the function that returns the cost of a schedule."
                )
            within = CostRange(space, float(self.budget[0]), float(self.budget[1]), self.cost)
        grid = space.grid() if within is None else within.grid  # refuses a range without configurations
        if self.strategy in ("tpe", "nsga2"):
            return SweepPlan(self.strategy, space, self.trials or 0, self.seed, cost_range=within)
        if self.strategy == "grid":
            if grid is None:
                raise InvalidInputError(
                    f"The space {space.name!r} is continuous, so it has no grid. "
                    "Take the space 'single', or the strategy random, tpe or nsga2."
                )
            if self.trials is not None and self.trials < len(grid):
                raise InvalidInputError(
                    f"This grid has {len(grid)} configurations and trials={self.trials} was given. "
                    "Leave trials out to run all of them, or take the strategy random, which draws some of them."
                )
            fixed = grid
        elif grid is not None:  # the first ones of a fixed shuffle, so that more trials only add to it
            fixed = [grid[i] for i in np.random.default_rng(self.seed).permutation(len(grid))[: self.trials]]
        else:
            draw = space.draw if within is None else within.draw
            fixed = [draw(np.random.default_rng((self.seed, index))) for index in range(self.trials or 0)]
        return SweepPlan(self.strategy, space, len(fixed), self.seed, tuple(fixed), within)

    def identity(self, fingerprint: Mapping[str, Any] | None) -> dict[str, Any]:
        """Settings that must be the same for a study to be continued; fingerprint: what its results depend on besides."""
        return {
            "space": self.space,
            "strategy": self.strategy,
            "num_layers": self.num_layers,
            "seed": self.seed,
            "budget": list(self.budget) if self.budget else None,
            "axis": str(Axis()),
            "fingerprint": dict(fingerprint or {}),
            # studies of earlier versions have none
            **({} if self.earliest_layer == 1 else {"earliest_layer": self.earliest_layer}),
        }
