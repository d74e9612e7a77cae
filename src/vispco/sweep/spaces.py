"""Search spaces of schedules, and the range of cost that configurations must lie in."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch

from vispco import kernels
from vispco.core.errors import InvalidInputError, UnknownNameError
from vispco.core.schedule import Schedule

if TYPE_CHECKING:
    import numpy as np
    import optuna
    from optuna.distributions import BaseDistribution

RATIOS = tuple(round(0.01 + 0.05 * i, 2) for i in range(20))  # the paper's: .01, .06, ..., .96
_MAX_KERNEL_PARAMETER = 6.0  # sigmoid(±6) is within 0.25 % of its ends: larger parameters change nothing


Params = Mapping[str, float]
"""A value for every parameter of a space, by name: one configuration."""


@dataclass(frozen=True)
class _Parameter:
    """A float in [low, high] (in steps, or uniform in its logarithm), or an integer."""

    name: str
    low: float
    high: float
    step: float | None = None
    log: bool = False
    integer: bool = False

    @property
    def distribution(self) -> BaseDistribution:
        from optuna.distributions import FloatDistribution, IntDistribution  # noqa: PLC0415 - an extra

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


class Space(ABC):
    """A family of schedules over `num_layers` layers.

    earliest_layer: the first layer whose input may be pruned: 1 for a scorer that reads attention, 0 for one that needs
        only embeddings or vision features.
    """

    name: str

    def __init__(self, num_layers: int, earliest_layer: int = 1) -> None:
        if not 0 <= earliest_layer < num_layers:
            raise InvalidInputError(
                f"A space of schedules was asked for {num_layers} layers. Tokens can leave from layer {earliest_layer} "
                f"on, so give {earliest_layer + 1} or more."
            )
        self.num_layers = num_layers
        self.earliest_layer = earliest_layer

    @cached_property
    @abstractmethod
    def parameters(self) -> tuple[_Parameter, ...]:
        """The parameters of the space."""

    @abstractmethod
    def schedule(self, params: Params) -> Schedule:
        """Return the schedule that these parameters describe."""

    def grid(self) -> list[Params] | None:
        """Return all configurations, always in the same order; None for a continuous space."""
        return None

    def draw(self, rng: np.random.Generator) -> Params:
        return {p.name: p.draw(rng) for p in self.parameters}

    def suggest(self, trial: optuna.Trial) -> Params:
        return {p.name: p.suggest(trial) for p in self.parameters}

    def between(self, start: Params, end: Params, share: float, *, move_integers: bool = True) -> Params:
        """Return the parameters `share` of the way from start to end."""
        found = {}
        for p in self.parameters:
            moved = share if move_integers or not p.integer else 0.0
            value = start[p.name] + (end[p.name] - start[p.name]) * moved
            found[p.name] = round(value) if p.integer else value
        return found


class SingleSpace(Space):
    """One pruning layer and the share kept from it on: the paper's grid, (L - 1) × 20, which is 700 for 36 layers; L × 20 from layer 0 on."""

    name = "single"

    @cached_property
    def parameters(self) -> tuple[_Parameter, ...]:
        return (
            _Parameter("layer", self.earliest_layer, self.num_layers - 1, integer=True),
            _Parameter("keep", RATIOS[0], RATIOS[-1], step=0.05),
        )

    def schedule(self, params: Params) -> Schedule:
        return Schedule.single(int(params["layer"]), round(params["keep"], 2), self.num_layers)

    def grid(self) -> list[Params]:
        layers = range(self.earliest_layer, self.num_layers)
        return [{"layer": layer, "keep": keep} for layer in layers for keep in RATIOS]


class _StagesSpace(Space):
    """Up to three stages, at any layers, uniform over all non-increasing heights."""

    name = "stages"

    @cached_property
    def parameters(self) -> tuple[_Parameter, ...]:
        numbers = range(1, min(3, self.num_layers - self.earliest_layer) + 1)
        layers = (_Parameter(f"layer_{j}", self.earliest_layer, self.num_layers - 1, integer=True) for j in numbers)
        return (*layers, *(_Parameter(f"share_{j}", 0.0, 1.0) for j in numbers))

    def schedule(self, params: Params) -> Schedule:
        count = len(self.parameters) // 2
        heights = _descending([params[f"share_{j}"] for j in range(1, count + 1)])
        layers = sorted(int(params[f"layer_{j}"]) for j in range(1, count + 1))
        # the last of equal layers wins
        return Schedule.stages(dict(zip(layers, heights, strict=True)), self.num_layers)


class _FreeSpace(Space):
    """Any non-increasing curve: sorted uniform numbers, raised to a random power.

    Without the power, all curves of a deep model would be close to the straight line from 1 to 0, at half the cost.
    """

    name = "free"

    @cached_property
    def parameters(self) -> tuple[_Parameter, ...]:
        shares = (_Parameter(f"share_{i}", 0.0, 1.0) for i in range(self.earliest_layer, self.num_layers))
        return (*shares, _Parameter("fullness", 1 / 8, 8.0, log=True))

    def schedule(self, params: Params) -> Schedule:
        curve = _descending([params[f"share_{i}"] for i in range(self.earliest_layer, self.num_layers)])
        full = (1.0,) * self.earliest_layer
        return Schedule((*full, *(r ** (1.0 / params["fullness"]) for r in curve)))


class _KernelSpace(Space):
    """The curves of one kernel. A kernel that is annealed is used as deployed, with hard steps."""

    def __init__(self, kernel: str, num_layers: int, earliest_layer: int = 1) -> None:
        super().__init__(num_layers, earliest_layer)
        self.name = f"kernel:{kernel}"
        self.kernel = kernels.get(kernel, earliest_layer=earliest_layer)

    @cached_property
    def parameters(self) -> tuple[_Parameter, ...]:
        names = self.kernel.parameter_names(self.num_layers)
        return tuple(_Parameter(name, -_MAX_KERNEL_PARAMETER, _MAX_KERNEL_PARAMETER) for name in names)

    def schedule(self, params: Params) -> Schedule:
        raw = torch.tensor([params[p.name] for p in self.parameters], dtype=torch.float64)
        gamma = math.inf if self.kernel.annealable else None
        return Schedule.from_kernel(self.kernel, raw, self.num_layers, gamma=gamma)


def _descending(shares: list[float]) -> list[float]:
    """Turn n independent uniform numbers into n sorted uniform numbers, largest first.

    The largest of n uniform numbers is distributed as u^(1/n), the next as that times u^(1/(n-1)), and so on. Unlike
    with sorting, each parameter always has the same meaning, so that a sampler can model it.
    """
    values, above = [], 1.0
    for left, share in zip(range(len(shares), 0, -1), shares, strict=True):
        above *= share ** (1.0 / left)
        values.append(above)
    return values


_SPACES: dict[str, type[SingleSpace | _StagesSpace | _FreeSpace]] = {
    space.name: space for space in (SingleSpace, _StagesSpace, _FreeSpace)
}


def get(name: str, num_layers: int, earliest_layer: int = 1) -> Space:
    """Return the space `single`, `stages`, `free` or `kernel:NAME`."""
    if name.startswith("kernel:"):
        return _KernelSpace(name.removeprefix("kernel:"), num_layers, earliest_layer)
    if name not in _SPACES:
        raise UnknownNameError("space", name, [*_SPACES, "kernel:NAME"])
    return _SPACES[name](num_layers, earliest_layer)


CostFunction = Callable[[Schedule], float]
"""Returns a schedule's cost as a fraction of the unpruned model's. It never grows when a schedule keeps less."""

_MAX_DRAWS = 16  # random draws before one is moved into the range
_MAX_HALVINGS = 60
_MAX_STARTS = 64


@dataclass(frozen=True)
class CostRange:
    """Configurations of `space` whose cost is in [low, high]."""

    space: Space
    low: float
    high: float
    cost: CostFunction

    def __post_init__(self) -> None:
        if not 0.0 <= self.low <= self.high <= 1.0:
            raise InvalidInputError(
                f"The budget [{self.low:g}, {self.high:g}] was given. Give two fractions of the unpruned model's cost, "
                "0 <= low <= high <= 1."
            )
        earliest = self.space.earliest_layer
        floor = self.cost(Schedule.withdraw(earliest, self.space.num_layers))
        if self.high < floor:
            raise InvalidInputError(
                f"The budget [{self.low:g}, {self.high:g}] is below the floor: with no visual token from layer {earliest} on, "
                f"this model still costs {floor:.4g} of the unpruned one. Give a budget above it."
            )

    def contains(self, params: Params) -> bool:
        return self.low <= self._cost(params) <= self.high

    @cached_property
    def grid(self) -> list[Params] | None:
        """The configurations of the space's grid that lie in the range, in the order of the space."""
        full_grid = self.space.grid()
        if full_grid is None:
            return None
        inside = [params for params in full_grid if self.contains(params)]
        if not inside:
            costs = [self._cost(params) for params in full_grid]
            raise self._empty_range_error(min(costs), max(costs))
        return inside

    def draw(self, rng: np.random.Generator) -> Params:
        """Draw a random configuration in the range: by rejection, and after `_MAX_DRAWS` draws by moving one into it."""
        for _ in range(_MAX_DRAWS):
            params = self.space.draw(rng)
            if self.contains(params):
                return params
        return self.fit(params, rng)

    def fit(self, params: Params, rng: np.random.Generator) -> Params:
        """Return these parameters if they lie in the range, else others that do.

        For a grid these are the nearest ones. Otherwise they are the first ones found on a line to the cheapest or the
        most expensive configuration.
        """
        if self.grid is not None:
            if self.contains(params):
                return params
            widths = {p.name: p.high - p.low or 1.0 for p in self.space.parameters}
            return min(self.grid, key=lambda other: sum(abs(params[n] - other[n]) / w for n, w in widths.items()))
        ends = self._ends
        cheapest, dearest = (self._cost(end) for end in ends)
        for _ in range(_MAX_STARTS if cheapest <= self.high and dearest >= self.low else 0):
            if self.contains(params):
                return params
            end = ends[0] if self._cost(params) > self.high else ends[1]
            moved, last = self._bisect(params, end, move_integers=True)
            if moved is None:  # a step in a layer index skipped the range: keep the indices and move the shares alone
                moved, _ = self._bisect(last, end, move_integers=False)
            if moved is not None:
                return moved
            params = self.space.draw(rng)
        raise self._empty_range_error(cheapest, dearest)

    def _bisect(self, start: Params, end: Params, *, move_integers: bool) -> tuple[Params | None, Params]:
        """Return a configuration in the range between start and end (or None), and the last one on the start's side."""
        too_dear = self._cost(start) > self.high
        near, far = 0.0, 1.0
        for share in (1.0, *([None] * _MAX_HALVINGS)):
            at = (near + far) / 2 if share is None else share
            params = self.space.between(start, end, at, move_integers=move_integers)
            cost = self._cost(params)
            if self.low <= cost <= self.high:
                return params, params
            if (cost > self.high) == too_dear:
                near = at
            else:
                far = at
        return None, self.space.between(start, end, near, move_integers=move_integers)

    @cached_property
    def _ends(self) -> tuple[Params, Params]:
        """The cheapest and the most expensive of the two extreme corners and some random draws."""
        rng = np.random.default_rng(0)
        corners: list[Params] = [{p.name: getattr(p, side) for p in self.space.parameters} for side in ("low", "high")]
        drawn = [self.space.draw(rng) for _ in range(_MAX_STARTS)]
        ranked = sorted([*corners, *drawn], key=self._cost)
        return ranked[0], ranked[-1]

    def _cost(self, params: Params) -> float:
        return self.cost(self.space.schedule(params))

    def _empty_range_error(self, cheapest: float, dearest: float) -> InvalidInputError:
        return InvalidInputError(
            f"No schedule of the space {self.space.name!r} was found to cost between {self.low:g} and {self.high:g}; "
            f"they cost from {cheapest:.4g} to {dearest:.4g}. Widen the budget, or take another space."
        )
