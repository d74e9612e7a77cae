"""Which configurations a strategy asks for: a fixed list (grid, random), or one after another (tpe, nsga2)."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import optuna

from vispco.errors import InvalidInputError, UnknownNameError

if TYPE_CHECKING:
    from vispco.sweep.cost_range import Window
    from vispco.sweep.spaces import Params, Space

STRATEGIES = ("grid", "random", "tpe", "nsga2")


@dataclass(frozen=True)
class Plan:
    """`total` configurations, called STRATEGY:0, STRATEGY:1, ...; `fixed` holds them where they are known at the start."""

    strategy: str
    space: Space
    total: int
    seed: int
    fixed: tuple[Params, ...] | None = None
    window: Window | None = None

    def name(self, index: int) -> str:
        return f"{self.strategy}:{index}"

    def sampler(self, index: int) -> optuna.samplers.BaseSampler:
        """The sampler of one configuration, seeded by its index alone.

        What it suggests is then a function of the study's history, the seed and the index: a sweep that was killed goes
        on as if it had not been, and two machines on one study never draw the same numbers.
        """
        seed = zlib.crc32(f"{self.seed}:{index}".encode())
        if self.strategy == "tpe":
            return optuna.samplers.TPESampler(seed=seed, multivariate=True)
        population = max(4, min(50, self.total // 4))  # Optuna's 50, or four generations of a short sweep
        return optuna.samplers.NSGAIISampler(seed=seed, population_size=population)

    def suggest(self, trial: optuna.Trial, index: int) -> Params:
        """What its sampler suggests for a trial, moved into the window where there is one."""
        params = self.space.suggest(trial)
        if self.window is None:
            return params
        return self.window.fit(params, np.random.default_rng((self.seed, index)))


def check(strategy: str, trials: int | None) -> None:
    """Refuse what can be refused before anything is computed."""
    if strategy not in STRATEGIES:
        raise UnknownNameError("strategy", strategy, list(STRATEGIES))
    if trials is not None and trials < 1:
        raise InvalidInputError(f"trials={trials} was given. A sweep needs at least one.")
    if trials is None and strategy != "grid":
        raise InvalidInputError(f"The strategy {strategy!r} goes on for as long as it may: say how many trials.")


def make(strategy: str, space: Space, *, trials: int | None, seed: int, window: Window | None = None) -> Plan:
    """Check what was asked for, and list the configurations where they are known in advance."""
    check(strategy, trials)
    grid = window.grid if window is not None else space.grid()
    if strategy in ("tpe", "nsga2"):
        return Plan(strategy, space, trials or 0, seed, window=window)
    if strategy == "grid":
        if grid is None:
            raise InvalidInputError(
                f"The space {space.name!r} has no end of schedules, so it has no grid. "
                "Take the space 'single', or the strategy random, tpe or nsga2."
            )
        if trials is not None and trials < len(grid):
            raise InvalidInputError(
                f"This grid has {len(grid)} configurations and trials={trials} was given. "
                "Leave trials out to run all of them, or take the strategy random, which draws some of them."
            )
        return Plan(strategy, space, len(grid), seed, tuple(grid), window)
    if grid is not None:  # without replacement: the first of one fixed shuffle, so that more trials only add to it
        drawn = [grid[i] for i in np.random.default_rng(seed).permutation(len(grid))[:trials]]
    else:
        draw = window.draw if window is not None else space.draw
        drawn = [draw(np.random.default_rng((seed, index))) for index in range(trials or 0)]
    return Plan(strategy, space, len(drawn), seed, tuple(drawn), window)
