"""Which configurations a strategy asks for: a fixed list (grid, random), or one after another (tpe, nsga2)."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from vispco.core.errors import InvalidInputError, UnknownNameError

if TYPE_CHECKING:
    import optuna

    from vispco.sweep.cost_range import CostRange
    from vispco.sweep.spaces import Params, Space

STRATEGIES = ("grid", "random", "tpe", "nsga2")


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


def check_plan(strategy: str, trials: int | None) -> None:
    """Check what can be checked before anything is computed."""
    if strategy not in STRATEGIES:
        raise UnknownNameError("strategy", strategy, list(STRATEGIES))
    if trials is not None and trials < 1:
        raise InvalidInputError(f"trials={trials} was given. A sweep needs at least one.")
    if trials is None and strategy != "grid":
        raise InvalidInputError(f"The strategy {strategy!r} has no end of its own: say how many trials.")


def make_plan(
    strategy: str, space: Space, *, trials: int | None, seed: int, cost_range: CostRange | None = None
) -> SweepPlan:
    """Check the arguments, and list the configurations if they are known from the start."""
    check_plan(strategy, trials)
    grid = cost_range.grid if cost_range is not None else space.grid()
    if strategy in ("tpe", "nsga2"):
        return SweepPlan(strategy, space, trials or 0, seed, cost_range=cost_range)
    if strategy == "grid":
        if grid is None:
            raise InvalidInputError(
                f"The space {space.name!r} is continuous, so it has no grid. "
                "Take the space 'single', or the strategy random, tpe or nsga2."
            )
        if trials is not None and trials < len(grid):
            raise InvalidInputError(
                f"This grid has {len(grid)} configurations and trials={trials} was given. "
                "Leave trials out to run all of them, or take the strategy random, which draws some of them."
            )
        return SweepPlan(strategy, space, len(grid), seed, tuple(grid), cost_range)
    if grid is not None:  # without replacement: the first ones of a fixed shuffle, so that more trials only add to it
        drawn = [grid[i] for i in np.random.default_rng(seed).permutation(len(grid))[:trials]]
    else:
        draw = cost_range.draw if cost_range is not None else space.draw
        drawn = [draw(np.random.default_rng((seed, index))) for index in range(trials or 0)]
    return SweepPlan(strategy, space, len(drawn), seed, tuple(drawn), cost_range)
