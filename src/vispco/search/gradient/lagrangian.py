"""The augmented Lagrangian of Algorithm 1, in its inequality form: min f subject to h >= 0.

h = (B - F) / F_full, per sample: what is left of the budget, in units of the unpruned cost. The paper's auxiliary y is
eliminated (Appendix B.2), which leaves

    phi = f + (z^2 - w^2) / (2 lambda),    z = max(0, w - lambda h)             Eq. simplified_lagrangian

Multiplier and penalty are kept per bin (a range of budgets, or one of several starts): the price of a FLOP depends on
how many there are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from vispco.core.errors import InvalidInputError


def penalty(h: Tensor, w: Tensor, lam: Tensor) -> Tensor:
    """(z^2 - w^2) / (2 lambda), elementwise and differentiable in h: what the constraint adds to the objective."""
    z = (w - lam * h).clamp_min(0.0)  # Eq. z_definition
    return (z.square() - w.square()) / (2.0 * lam)


@dataclass(frozen=True)
class LagrangianSettings:
    """lambda at the start, its growth alpha, the test beta, its cap, and the violation that counts as converged."""

    lam: float = 100.0
    alpha: float = 5.0
    beta: float = 0.5
    epsilon: float = 0.005
    cap: float = 1e5
    w: float = 0.0

    def __post_init__(self) -> None:
        if not (self.lam > 0 and self.alpha > 1 and 0 < self.beta < 1 and self.epsilon > 0 and self.w >= 0):
            raise InvalidInputError(
                f"{self} was given. Algorithm 1 needs lambda > 0, alpha > 1, beta in (0, 1), epsilon > 0 and w >= 0."
            )
        if self.cap < self.lam:
            raise InvalidInputError(f"The cap {self.cap:g} of lambda is under its start {self.lam:g}.")


class AugmentedLagrangian:
    """Multipliers w and penalties lambda [bins] (float64), and their updates between two inner solves."""

    def __init__(self, settings: LagrangianSettings, bins: int = 1) -> None:
        if bins < 1:
            raise InvalidInputError(f"{bins} bins were given. There is at least one multiplier.")
        self.settings, self.bins = settings, bins
        self.w = torch.full((bins,), settings.w, dtype=torch.float64)
        self.lam = torch.full((bins,), settings.lam, dtype=torch.float64)
        self.violation = torch.full((bins,), torch.inf, dtype=torch.float64)

    def bin_of(self, budget: Tensor) -> Tensor:
        """Budgets [B] in [0, 1] -> the bin of each, int64 [B]: equal widths."""
        return (budget.detach() * self.bins).long().clamp(0, self.bins - 1)

    def penalty(self, h: Tensor, bins: Tensor) -> Tensor:
        """What the constraint adds to each sample's objective: h [B] (differentiable), bins int64 [B] -> [B]."""
        return penalty(h, self.w.to(h.device)[bins], self.lam.to(h.device)[bins])

    def statistics(self, h: Tensor, bins: Tensor) -> Tensor:
        """What `update` needs of some samples: [3, bins], sums of h, of the violation, and of 1. Add up over ranks.

        The violation is |max(F - B, -w / lambda)|: 0 at a slack optimum (w = 0, F < B) as well as at an active one.
        """
        h, bins = h.detach().double().cpu(), bins.cpu()
        off = torch.maximum(-h, -(self.w / self.lam)[bins]).abs()
        table = torch.zeros(3, self.bins, dtype=torch.float64)
        return table.index_add(1, bins, torch.stack([h, off, torch.ones_like(h)]))

    def update(self, statistics: Tensor) -> bool:
        """After an inner solve: move w, then lambda; True once every bin that was seen has converged."""
        total, off, count = statistics.double().cpu()
        seen = count > 0
        count = count.clamp_min(1)
        violation = torch.where(seen, off / count, self.violation)
        # w <- max(0, w - lambda h), with the lambda that the inner solve had
        self.w = torch.where(seen, (self.w - self.lam * total / count).clamp_min(0.0), self.w)
        stalled = seen & (violation >= self.settings.beta * self.violation) & (violation >= self.settings.epsilon)
        self.lam = torch.where(stalled, (self.lam * self.settings.alpha).clamp_max(self.settings.cap), self.lam)
        self.violation = violation
        return bool((violation[seen] < self.settings.epsilon).all())

    @property
    def converged(self) -> Tensor:
        """Which bins have met the constraint, bool [bins]; one that was never seen has not."""
        return self.violation < self.settings.epsilon

    def state_dict(self) -> dict[str, Tensor]:
        return {"w": self.w.clone(), "lambda": self.lam.clone(), "violation": self.violation.clone()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.w, self.lam, self.violation = (state[key].double().clone() for key in ("w", "lambda", "violation"))
