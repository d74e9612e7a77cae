"""One number that a space leaves open: drawn at random, suggested by Optuna, or moved along a line."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from optuna.distributions import BaseDistribution, FloatDistribution, IntDistribution

if TYPE_CHECKING:
    import numpy as np
    import optuna

Params = Mapping[str, float]
"""A value for every parameter of a space, by name: all there is to say of a configuration."""


@dataclass(frozen=True)
class Parameter:
    """A float in [low, high] (in steps, or even in its logarithm, where asked), or an integer."""

    name: str
    low: float
    high: float
    step: float | None = None
    log: bool = False
    integer: bool = False

    @property
    def distribution(self) -> BaseDistribution:
        if self.integer:
            return IntDistribution(int(self.low), int(self.high))
        return FloatDistribution(self.low, self.high, step=self.step, log=self.log)

    def suggest(self, trial: optuna.Trial) -> float:
        if self.integer:
            return int(trial.suggest_int(self.name, int(self.low), int(self.high)))
        return float(trial.suggest_float(self.name, self.low, self.high, step=self.step, log=self.log))

    def draw(self, rng: np.random.Generator) -> float:
        if self.integer:
            return int(rng.integers(int(self.low), int(self.high) + 1))
        if self.step is not None:
            return self.low + self.step * int(rng.integers(0, round((self.high - self.low) / self.step) + 1))
        if self.log:
            return float(math.exp(rng.uniform(math.log(self.low), math.log(self.high))))
        return float(rng.uniform(self.low, self.high))

    def between(self, start: float, end: float, share: float) -> float:
        """The value `share` of the way from start to end."""
        value = start + (end - start) * share
        return round(value) if self.integer else value
