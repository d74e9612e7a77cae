"""Price of choices: a polynomial of the counts, for a fixed set of layers at which choices are made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from vispco.cost.workload import Array

if TYPE_CHECKING:
    from vispco.cost.host import HostPricing


@dataclass(frozen=True, eq=False)
class ChoicePrice:
    """The price of choices for counts c [n, L], in a cost's unit: fixed + sum over layers of c (linear + quadratic c).

    A choice before layer i is a polynomial of the tokens of layer i - 1; before layer 0, of all visual tokens.
    """

    fixed: Array  # [n]
    linear: Array  # [n, L]
    quadratic: Array  # [n, L]

    @classmethod
    def of(cls, pricing: HostPricing, choices: Array) -> ChoicePrice:
        """Of choices before some layers: bool [n, L]."""
        work, cost, visual = pricing.workload, pricing.cost, pricing.visual
        fixed: Array = pricing.planning
        linear: Array = np.zeros_like(choices, np.int64)
        quadratic: Array = np.zeros_like(choices, np.int64)
        if work.scoring is not None:
            found = work.scoring.flops(choices, pricing.text, pricing.asked, visual)
            first = (found.linear[:, 0] + found.quadratic[:, 0] * visual) * visual
            fixed = fixed + found.once + found.constant.sum(axis=1) + first
            linear[:, :-1], quadratic[:, :-1] = found.linear[:, 1:], found.quadratic[:, 1:]
            linear += found.kept
        if cost.flop_price != 1.0:
            fixed, linear, quadratic = (each * cost.flop_price for each in (fixed, linear, quadratic))
        if cost.drop_price:
            fixed = fixed + cost.drop_price * choices.sum(axis=1)
        return cls(fixed, linear, quadratic)

    def of_counts(self, counts: Array) -> Array:
        """[..., n, L] -> [..., n]."""
        found: Array = self.fixed + (counts * (self.linear + self.quadratic * counts)).sum(axis=-1)
        return found
