"""A range of cost that configurations must lie in, and the way into it for those that do not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from vispco.errors import InvalidInputError
from vispco.schedule import Schedule

if TYPE_CHECKING:
    from vispco.sweep.spaces import Params, Space

Cost = Callable[[Schedule], float]
"""A schedule's fraction of the unpruned model's cost; it never grows when a schedule keeps less."""

DRAWS = 16  # random draws before a draw is moved into the window
HALVINGS = 60
TRIES = 64


@dataclass(frozen=True)
class Window:
    """Configurations of `space` whose cost is in [low, high]."""

    space: Space
    low: float
    high: float
    cost: Cost

    def __post_init__(self) -> None:
        if not 0.0 <= self.low <= self.high <= 1.0:
            raise InvalidInputError(
                f"The budget [{self.low:g}, {self.high:g}] was given. Give two fractions of the unpruned model's cost, "
                "0 <= low <= high <= 1."
            )
        floor = self.cost(Schedule.withdraw(1, self.space.num_layers))
        if self.high < floor:
            raise InvalidInputError(
                f"The budget [{self.low:g}, {self.high:g}] is below the floor: with no visual token from layer 1 on, "
                f"this model still costs {floor:.4g} of the unpruned one. Give a budget above it."
            )

    def holds(self, params: Params) -> bool:
        return self.low <= self._cost(params) <= self.high

    @cached_property
    def grid(self) -> list[Params] | None:
        """The space's configurations that lie in the window, in the space's order."""
        every = self.space.grid()
        if every is None:
            return None
        inside = [params for params in every if self.holds(params)]
        if not inside:
            costs = [self._cost(params) for params in every]
            raise self._empty(min(costs), max(costs))
        return inside

    def draw(self, rng: np.random.Generator) -> Params:
        """A random configuration in the window: by rejection; where that takes long, by moving one into it."""
        for _ in range(DRAWS):
            params = self.space.draw(rng)
            if self.holds(params):
                return params
        return self.fit(params, rng)

    def fit(self, params: Params, rng: np.random.Generator) -> Params:
        """These parameters if they lie in the window; else the nearest of a grid that do, or the first that do on a line
        to a cheaper or dearer corner.
        """
        if self.grid is not None:
            return params if self.holds(params) else min(self.grid, key=lambda other: self._distance(params, other))
        ends = self._ends
        cheapest, dearest = (self._cost(end) for end in ends)
        for _ in range(TRIES if cheapest <= self.high and dearest >= self.low else 0):
            moved = self._move(params, ends)
            if moved is not None:
                return moved
            params = self.space.draw(rng)
        raise self._empty(cheapest, dearest)

    def _move(self, params: Params, ends: tuple[Params, Params]) -> Params | None:
        cost = self._cost(params)
        if self.low <= cost <= self.high:
            return params
        end = ends[0] if cost > self.high else ends[1]
        moved, last = self._bisect(params, end, move_integers=True)
        if moved is None:  # a layer's index jumped over the window: hold the indices, move the shares alone
            moved, _ = self._bisect(last, end, move_integers=False)
        return moved

    def _bisect(self, start: Params, end: Params, *, move_integers: bool) -> tuple[Params | None, Params]:
        """A configuration in the window between start and end (or None), and the last one on the side of start."""
        too_dear = self._cost(start) > self.high
        near, far = 0.0, 1.0
        for share in (1.0, *([None] * HALVINGS)):
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
        """The cheapest and the dearest of the two extreme corners and some random draws."""
        rng = np.random.default_rng(0)
        corners: list[Params] = [{p.name: getattr(p, side) for p in self.space.parameters} for side in ("low", "high")]
        drawn = [self.space.draw(rng) for _ in range(TRIES)]
        ranked = sorted([*corners, *drawn], key=self._cost)
        return ranked[0], ranked[-1]

    def _distance(self, one: Params, other: Params) -> float:
        return sum(abs(one[p.name] - other[p.name]) / (p.high - p.low or 1.0) for p in self.space.parameters)

    def _cost(self, params: Params) -> float:
        return self.cost(self.space.schedule(params))

    def _empty(self, cheapest: float, dearest: float) -> InvalidInputError:
        return InvalidInputError(
            f"No schedule of the space {self.space.name!r} was found to cost between {self.low:g} and {self.high:g}; "
            f"they cost from {cheapest:.4g} to {dearest:.4g}. Widen the budget, or take another space."
        )
