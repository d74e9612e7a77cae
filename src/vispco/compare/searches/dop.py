"""After DOP: the KL of dropping at one layer to one share, measured alone, and the curve with the smallest sum of them.

Liu et al., "Beyond Token Pruning: Operation Pruning in Vision-Language Models" (arXiv 2507.02909, version 2: depth-wise
operation pruning). This is *after* the method, from its description. No parity is claimed.

Faithful: the loss is the KL to the unpruned model on 25 to 100 samples; it is taken to be additive, so that each place
where tokens can leave is measured alone; what has left stays away from all deeper layers; the sum is minimised under a
limit of FLOPs. What was measured serves every budget.

Not faithful: attention and MLP of a layer are pruned apart there; here tokens leave both.

Ours: tokens that leave before layer i and reduce the share from a to b cost KL(i, b) - KL(i, a), where KL(i, s) is that
of a single drop to s before layer i, made to grow as s falls (a running maximum). A curve with one drop thus costs what
was measured. A dynamic programme walks the layers and keeps, for each share that is left, the curves that no other one
beats in
both sum and price: exact for every budget, where the price of a drop does not depend on those before it. The price is the
bill of a sample of typical size, with scoring. Which tokens stay is up to the comparison's scorer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from vispco.compare.searches.calibration import Calibration
from vispco.compare.searches.rival import Choice, Rival, RivalResult
from vispco.compare.searches.search_registry import SEARCHES
from vispco.core.schedule import Schedule, whole_tokens
from vispco.cost.workload import Array
from vispco.evaluation.result import Evaluator


@SEARCHES.register
@dataclass(frozen=True)
class _DOP(Rival):
    """The curve with the smallest sum of losses. samples: calibration samples that are looked at. shares: steps from 1 to 0."""

    name: ClassVar[str] = "dop"
    least: ClassVar[Mapping[str, float]] = {"samples": 1, "shares": 1}
    learns_all_budgets: ClassVar[bool] = True

    samples: int = 64
    shares: int = 10

    def search_budgets(
        self, calibration: Calibration | Evaluator, budgets: Sequence[float]
    ) -> dict[float, RivalResult]:
        """Search for several budgets at once. The bill of each result is that of the whole search."""
        fresh = Calibration.of(calibration).fresh()
        for budget in budgets:
            self.check_budget(fresh, budget)
        start = time.perf_counter()
        choices = self._choose(fresh, budgets)
        seconds = time.perf_counter() - start
        return {b: self.result(choice, b, fresh, seconds) for b, choice in zip(budgets, choices, strict=True)}

    def _search(self, calibration: Calibration, budget: float) -> Choice:
        return self._choose(calibration, (budget,))[0]

    def _choose(self, calibration: Calibration, budgets: Sequence[float]) -> list[Choice]:
        few, sizes = calibration.first(self.samples), calibration.sizes
        shares = np.linspace(1.0, 0.0, self.shares + 1)
        losses = np.zeros((sizes.num_layers, len(shares)))  # of a single drop before a layer to a share
        for layer in range(sizes.earliest_layer, sizes.num_layers):
            for level in range(1, len(shares)):
                losses[layer, level] = few.kl(Schedule.single(layer, float(shares[level]), sizes.num_layers))
        losses = np.maximum.accumulate(losses, axis=1)
        typical = sizes.typical

        def price(curves: Array) -> Array:
            counts = whole_tokens(torch.from_numpy(shares[curves]), typical.num_visual)
            found: Array = sizes.cost.fraction_of_counts(counts, typical).numpy()
            return found

        curves, sums, prices = _additive_frontier(losses, price, sizes.earliest_layer)
        choices = []
        for budget in budgets:
            fitting = np.flatnonzero(prices <= budget)
            best = fitting[sums[fitting].argmin()] if len(fitting) else prices.argmin()  # too dear: cut by the budget
            provenance = {"foretold_kl": float(sums[best]), "looked_at": len(few.sizes)}
            choices.append(Choice(Schedule(tuple(shares[curves[best]].tolist())), provenance=provenance))
        return choices


def _additive_frontier(losses: Array, price: Callable[[Array], Array], first: int) -> tuple[Array, Array, Array]:
    """The non-increasing curves that no other one beats in both sum of losses and price, by a dynamic programme.

    losses: [L, S] of a single drop before a layer to each of S descending shares, the first of which is all tokens.
    price: curves int64 [n, L], as places among the shares, -> [n]. first: the first layer that may drop.
    Returns curves [n, L], sums [n] and prices [n], cheapest first.
    """
    num_layers, num_shares = losses.shape
    curves = np.zeros((1, num_layers), dtype=np.int64)
    sums, prices = np.zeros(1), price(curves)
    for layer in range(first, num_layers):
        lowered, their_sums = [], []
        for level in range(1, num_shares):
            above = curves[:, layer] < level
            after = curves[above]
            their_sums.append(sums[above] + losses[layer, level] - losses[layer, after[:, layer]])
            after[:, layer:] = level
            lowered.append(after)
        prices = np.concatenate([prices, price(np.concatenate(lowered))])
        curves, sums = np.concatenate([curves, *lowered]), np.concatenate([sums, *their_sums])
        left = curves[:, -1]
        kept = np.concatenate(
            [_undominated(np.flatnonzero(left == level), sums, prices) for level in range(num_shares)]
        )
        curves, sums, prices = curves[kept], sums[kept], prices[kept]
    kept = _undominated(np.arange(len(curves)), sums, prices)
    return curves[kept], sums[kept], prices[kept]


def _undominated(places: Array, sums: Array, prices: Array) -> Array:
    """Of these places, cheapest first, those whose sum is smaller than that of every one before."""
    order = places[np.lexsort((sums[places], prices[places]))]
    ordered = sums[order]
    least = np.minimum.accumulate(np.concatenate([[np.inf], ordered[:-1]])) if len(order) else ordered
    found: Array = order[ordered < least]
    return found
