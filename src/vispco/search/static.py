"""Algorithm 1 of the paper over a calibration set: one budget, one shape for all samples.

A schedule is a shape and a price. All samples get the same shape, and each its own budget parameter, solved so that
every one spends the same fraction f of its own full cost; f follows from the shared parameters at a typical size. So
there is one F(r) and one constraint, as in the paper, although samples differ in size. With solver="lagrangian" f is
free and Algorithm 1 drives it to the budget; with solver="projection" f *is* the budget and only the shape is learned.

The landscape is rugged, so several starts go in one batch, gamma goes from gentle to sharp, and the last word has the
calibration KL of real dropping, over starts and results alike.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from vispco.errors import InvalidInputError, VispcoError
from vispco.kernels import Kernel
from vispco.search.batch import Batch
from vispco.search.draws import floors
from vispco.search.found import Found
from vispco.search.halving import rank
from vispco.search.lagrangian import AugmentedLagrangian, Settings
from vispco.search.objective import Objective, frozen
from vispco.search.projection import Pricing, project
from vispco.search.shapes import shapes

Solver = Literal["lagrangian", "projection"]


@dataclass(frozen=True)
class Descent:
    """How the gradient goes down. rate is for a kernel's few raw numbers; the presets' are for a network's weights."""

    starts: int = 1
    outer: int = 6  # iterations of Algorithm 1
    inner: int = 2  # gradient steps of one inner solve
    rate: float = 0.15
    gamma: tuple[float, float] = (1.0, 10.0)  # gentle to sharp, for kernels that have it
    explore: int | None = 40  # how many shapes are looked at before; None for all


class DivergedError(VispcoError, RuntimeError):
    """A loss became NaN or infinite; the message says where."""


def static_search(
    objective: Objective,
    batches: Sequence[Batch],
    kernel: Kernel,
    budget: float,
    *,
    solver: Solver = "projection",
    settings: Settings | None = None,
    descent: Descent | None = None,
) -> Found:
    """The shape with the least calibration KL at a budget that gradient descent finds from the best of many starts."""
    if solver not in ("lagrangian", "projection"):
        raise InvalidInputError(f"solver={solver!r} was given. It is 'lagrangian' or 'projection'.")
    plan = descent or Descent()
    L = objective.cost.num_layers
    ranked = rank(objective, batches[:2], kernel, shapes(kernel, L, limit=plan.explore), budget, keep=plan.starts)
    params = ranked.params.clone().requires_grad_()  # [S, P]
    S, typical = len(params), _typical(batches, objective)
    goal = max(budget, _floor(typical, kernel))  # less than the floor cannot be spent
    settings = settings or Settings()
    multiplier = AugmentedLagrangian(settings, bins=S)
    optimizer = torch.optim.Adam([params], plan.rate)
    history: list[dict[str, Any]] = []
    kept, done = [ranked.params], solver == "projection"
    with frozen(objective.model):
        for outer in range(plan.outer):
            gamma = gamma_at(kernel, plan, outer)
            for inner in range(plan.inner):
                batch = batches[(outer * plan.inner + inner) % len(batches)]
                optimizer.zero_grad()
                price = _price(params, kernel, typical, gamma) if solver == "lagrangian" else _fixed(goal, S)
                kl = _kl(objective, batch, kernel, params, price, gamma)  # [S]
                loss = kl.sum()
                if solver == "lagrangian":
                    loss = loss + multiplier.penalty(goal - price, torch.arange(S)).sum()
                if not bool(loss.isfinite()):
                    raise DivergedError(
                        f"The loss became {loss.item()} at iteration {outer}. Lower the rate ({plan.rate})."
                    )
                torch.autograd.backward(loss)
                optimizer.step()
            with torch.no_grad():
                h = goal - _price(params, kernel, typical, gamma) if solver == "lagrangian" else torch.zeros(S)
            done = multiplier.update(multiplier.statistics(h, torch.arange(S)))
            kept.append(params.detach().clone())
            history.append(_record(outer, gamma, kl, multiplier))
            if done and solver == "lagrangian" and outer + 1 >= plan.outer // 2:  # gamma has sharpened by then
                break
    rivals = torch.cat([kept[0], *kept[-2:]])
    best = rank(objective, batches, kernel, rivals, budget, rungs=2)
    history.append({"shape": kernel.describe(best.params[0], L), "samples": best.samples})
    return Found(budget, best.params[0], float(best.kl[0]), bool(multiplier.converged.any()), history)


def _kl(
    objective: Objective, batch: Batch, kernel: Kernel, params: Tensor, price: Tensor, gamma: float | None
) -> Tensor:
    """Mean relaxed KL of each start over a batch, all starts in one pass: params [S, P], price [S] -> [S]."""
    S, B = len(params), len(batch)
    pricing = Pricing(batch.num_text.repeat(S), batch.num_visual.repeat(S), objective.cost, objective.scorer.site)
    low = floors(batch, objective.cost, objective.scorer.site, first_full=kernel.first_full).repeat(S)
    fraction = torch.maximum(price.repeat_interleave(B), low)  # a small picture's floor may lie above
    retention = project(kernel, params.repeat_interleave(B, dim=0), fraction, pricing, gamma=gamma)
    return objective.relaxed(batch.tiled(S), retention).view(S, B).mean(-1).double().cpu()


def _typical(batches: Sequence[Batch], objective: Objective) -> Pricing:
    """The median size of the calibration set: where the shared parameters' price is read off."""
    text = torch.cat([b.num_text for b in batches]).median()
    visual = torch.cat([b.num_visual for b in batches]).median()
    return Pricing(text, visual, objective.cost, objective.scorer.site)


def _price(params: Tensor, kernel: Kernel, typical: Pricing, gamma: float | None) -> Tensor:
    return typical.fraction(kernel(params, typical.cost.num_layers, gamma=gamma))


def _floor(typical: Pricing, kernel: Kernel) -> float:
    cost, size = typical.cost, (typical.num_text, typical.num_visual)
    return float(cost.floor(*size, site=typical.site, first_full=kernel.first_full) / cost.full(*size))


def _fixed(budget: float, S: int) -> Tensor:
    return torch.full((S,), budget, dtype=torch.float64)


def gamma_at(kernel: Kernel, plan: Descent, outer: int) -> float | None:
    """Geometric from gentle to sharp; None for kernels whose sharpness is not annealed."""
    if not kernel.annealable:
        return None
    gentle, final = plan.gamma
    return gentle * math.exp(math.log(final / gentle) * outer / max(plan.outer - 1, 1))


def _record(outer: int, gamma: float | None, kl: Tensor, multiplier: AugmentedLagrangian) -> dict[str, Any]:
    return {
        "iteration": outer,
        "gamma": gamma,
        "kl": kl.tolist(),
        "violation": multiplier.violation.tolist(),
        "w": multiplier.w.tolist(),
        "lambda": multiplier.lam.tolist(),
    }
