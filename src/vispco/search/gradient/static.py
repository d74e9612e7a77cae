"""Algorithm 1 of the paper over a calibration set: one budget, one shape for all samples.

A schedule is a shape and a price f. All samples get the same shape, and each its own budget parameter, solved so that
every one spends the same fraction f of its own full cost. So there is one F(r) = f and one constraint, f <= B, although
samples differ in size: it means the same at every gamma and for every kernel, and no step leaves the feasible set. With
solver="lagrangian" f is learned and Algorithm 1 drives it to the budget; with solver="projection" f *is* the budget.

The landscape is rugged, so many shapes are looked at before the descent, several starts may go in one batch, every step
is measured by real dropping, and so is the choice at the end, starts included.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from vispco.core.errors import InvalidInputError, VispcoError
from vispco.kernels import Kernel
from vispco.pruner.search_files import FoundShape
from vispco.search.batch import Batch
from vispco.search.gradient.descent_step import (
    best_along,
    bound_price_slope,
    descent_direction,
    minimise_price,
    slopes,
    unsaturate,
)
from vispco.search.gradient.lagrangian import AugmentedLagrangian, LagrangianSettings
from vispco.search.gradient.projection import Pricing
from vispco.search.objective import Objective, frozen
from vispco.search.shape_pool import median_size
from vispco.search.successive_halving import explored_shapes, rank_shapes

Solver = Literal["lagrangian", "projection"]
_PATIENCE = 4


@dataclass(frozen=True)
class DescentSettings:
    """How the gradient goes down. rate is for a kernel's few raw numbers; the presets' are for a network's weights."""

    starts: int = 1
    outer: int = 3  # iterations; Algorithm 1 takes up to PATIENCE times as many until its constraint is met
    inner: int = 1  # gradient steps of one inner solve
    batches: int = 4  # that one gradient is averaged over
    rate: float = 0.4  # the first step's length: how far the number moves that moves most
    lengths: tuple[float, ...] = (0.25, 1.0, 3.0)  # in units of it, what is tried by real dropping
    price: float | None = None  # where the Lagrangian's price starts; None: at the budget
    gamma: tuple[float, float] = (10.0, 10.0)  # first and last, for kernels that have it
    explore: int | None = 64  # how many shapes that differ at the budget are looked at before; None for all


class DivergenceError(VispcoError, RuntimeError):
    """A loss became NaN or infinite; the message says where."""


def static_search(
    objective: Objective,
    batches: Sequence[Batch],
    kernel: Kernel,
    budget: float,
    *,
    solver: Solver = "projection",
    settings: LagrangianSettings | None = None,
    descent: DescentSettings | None = None,
) -> FoundShape:
    """The shape with the least calibration KL at a budget that gradient descent finds from the best of many starts."""
    if solver not in ("lagrangian", "projection"):
        raise InvalidInputError(f"solver={solver!r} was given. It is 'lagrangian' or 'projection'.")
    plan = descent or DescentSettings()
    L = objective.cost.num_layers
    pool, explored = explored_shapes(objective, kernel, budget, batches, plan.explore)
    first = rank_shapes(objective, batches, kernel, pool.params[explored], budget, keep=plan.starts)
    size = Pricing(objective.workload(median_size(batches)), objective.cost)
    shape = unsaturate(kernel, first.params, budget, size)  # [S, P]
    S = len(shape)
    begin = budget if plan.price is None or solver == "projection" else plan.price
    price = torch.full((S,), begin, dtype=torch.float64)
    rate = torch.full((S, 1), plan.rate, dtype=torch.float64)
    multiplier = AugmentedLagrangian(settings or LagrangianSettings(), bins=S)
    history: list[dict[str, Any]] = []
    place, steps, worth = 0, 0, torch.zeros(S, dtype=torch.float64)
    with frozen(objective.model):
        for outer in range(plan.outer * (_PATIENCE if solver == "lagrangian" else 1)):
            gamma = annealed_gamma(kernel, plan, min(outer, plan.outer - 1))
            for _ in range(plan.inner):
                some = [batches[(place + i) % len(batches)] for i in range(min(plan.batches, len(batches)))]
                place += len(some)
                found = slopes(objective, some, kernel, shape, price, gamma)
                if not bool(found.kl.isfinite().all()):
                    raise DivergenceError(f"KL became {found.kl.tolist()} at iteration {outer}.")
                slope = bound_price_slope(found.price, found.kl, multiplier.settings.epsilon)
                worth = worth + (slope - worth) / (steps := steps + 1)  # the mean so far: few samples are noisy
                if solver == "lagrangian":
                    price = minimise_price(price, worth, budget, multiplier.w, multiplier.lam)
                towards = descent_direction(kernel, shape, found.shape, price, size, gamma)
                for row in range(S):  # shorter next time if no length was better
                    step = rate[row] * towards[row]
                    shape[row], best = best_along(
                        objective, some, kernel, shape[row], float(price[row]), step, plan.lengths
                    )
                    rate[row] *= plan.lengths[best - 1] if best else min(plan.lengths)
            done = multiplier.update(multiplier.statistics(budget - price, torch.arange(S)))
            history.append(
                {
                    "iteration": outer,
                    "gamma": gamma,
                    "kl": found.kl.tolist(),
                    "price": price.tolist(),
                    "violation": multiplier.violation.tolist(),
                    "w": multiplier.w.tolist(),
                    "lambda": multiplier.lam.tolist(),
                }
            )
            still = bool((rate < plan.rate / 8).all())  # two steps in a row, no length was better
            if done and (still or outer + 1 >= plan.outer):
                break
    last = rank_shapes(objective, batches, kernel, shape, budget, keep=S, rungs=1)
    chosen = last if last.kl[0] < first.kl[0] else first
    history.append(
        {"shape": kernel.describe(chosen.params[0], L), "samples": chosen.samples, "start_kl": float(first.kl[0])}
    )
    converged = solver == "projection" or bool(multiplier.converged.all())
    return FoundShape(budget, chosen.params[0], float(chosen.kl[0]), converged, history)


def annealed_gamma(kernel: Kernel, plan: DescentSettings, outer: int) -> float | None:
    """Geometric from gentle to sharp; None for kernels whose sharpness is not annealed."""
    if not kernel.annealable:
        return None
    gentle, final = plan.gamma
    return gentle * math.exp(math.log(final / gentle) * outer / max(plan.outer - 1, 1))
