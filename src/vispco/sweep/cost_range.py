"""A range of cost that configurations must lie in, and how configurations outside of it are moved into it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from vispco.core.errors import InvalidInputError
from vispco.core.schedule import Schedule

if TYPE_CHECKING:
    from vispco.sweep.spaces import Params, Space

CostFunction = Callable[[Schedule], float]
"""Returns a schedule's cost as a fraction of the unpruned model's. It never grows when a schedule keeps less."""

MAX_DRAWS = 16  # random draws before one is moved into the range
MAX_HALVINGS = 60
MAX_STARTS = 64


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
        """Draw a random configuration in the range: by rejection, and after `MAX_DRAWS` draws by moving one into it."""
        for _ in range(MAX_DRAWS):
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
            return params if self.contains(params) else min(self.grid, key=lambda other: self._distance(params, other))
        ends = self._ends
        cheapest, dearest = (self._cost(end) for end in ends)
        for _ in range(MAX_STARTS if cheapest <= self.high and dearest >= self.low else 0):
            moved = self._move(params, ends)
            if moved is not None:
                return moved
            params = self.space.draw(rng)
        raise self._empty_range_error(cheapest, dearest)

    def _move(self, params: Params, ends: tuple[Params, Params]) -> Params | None:
        cost = self._cost(params)
        if self.low <= cost <= self.high:
            return params
        end = ends[0] if cost > self.high else ends[1]
        moved, last = self._bisect(params, end, move_integers=True)
        if moved is None:  # a step in a layer index skipped the range: keep the indices and move the shares alone
            moved, _ = self._bisect(last, end, move_integers=False)
        return moved

    def _bisect(self, start: Params, end: Params, *, move_integers: bool) -> tuple[Params | None, Params]:
        """Return a configuration in the range between start and end (or None), and the last one on the start's side."""
        too_dear = self._cost(start) > self.high
        near, far = 0.0, 1.0
        for share in (1.0, *([None] * MAX_HALVINGS)):
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
        drawn = [self.space.draw(rng) for _ in range(MAX_STARTS)]
        ranked = sorted([*corners, *drawn], key=self._cost)
        return ranked[0], ranked[-1]

    def _distance(self, one: Params, other: Params) -> float:
        return sum(abs(one[p.name] - other[p.name]) / (p.high - p.low or 1.0) for p in self.space.parameters)

    def _cost(self, params: Params) -> float:
        return self.cost(self.space.schedule(params))

    def _empty_range_error(self, cheapest: float, dearest: float) -> InvalidInputError:
        return InvalidInputError(
            f"No schedule of the space {self.space.name!r} was found to cost between {self.low:g} and {self.high:g}; "
            f"they cost from {cheapest:.4g} to {dearest:.4g}. Widen the budget, or take another space."
        )
