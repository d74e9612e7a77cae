"""One inner step of a static search: a gradient through masked passes, the price by a closed form, the shape by trying.

The gradient says where to go, real dropping how far: along its direction a few shapes are measured, and the best of
them is taken, or none. So a step is never worse on the samples that it saw, whatever the straight-through bias.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from vispco.kernels import Kernel
from vispco.kernels.own_kernels import Free
from vispco.search.batch import Batch
from vispco.search.gradient.projection import Pricing, project
from vispco.search.objective import Objective
from vispco.search.shape_pool import measure_shapes

_LOOSE = 5.0
_DAMPING = 1e-3
_FURTHEST = 0.05  # how far a step may carry the price away from the budget: beyond it, its slope says little


@dataclass(frozen=True)
class _Slopes:
    """Mean relaxed KL [S] of each start, and its gradient in the shape [S, P] and in the price [S]."""

    kl: Tensor
    shape: Tensor
    price: Tensor


def slopes(
    objective: Objective, batches: Sequence[Batch], kernel: Kernel, shape: Tensor, price: Tensor, gamma: float | None
) -> _Slopes:
    """Over some batches, all starts in one pass: shape [S, P], price [S]."""
    shape, price = shape.detach().requires_grad_(), price.detach().requires_grad_()
    count = sum(map(len, batches))
    total, d_shape, d_price = torch.zeros_like(price), torch.zeros_like(shape), torch.zeros_like(price)
    for batch in batches:
        S, B = len(shape), len(batch)
        workload = objective.workload(batch.sizes).pinned(kernel.earliest_layer).repeat(S)
        pricing, low = Pricing(workload, objective.cost), objective.cost.lowest_fraction(workload)
        fraction = torch.maximum(price.repeat_interleave(B), low)  # a small picture's floor may lie above
        retention = project(kernel, shape.repeat_interleave(B, dim=0), fraction, pricing, gamma=gamma)
        kl = objective.relaxed_kl(batch.tiled(S), retention).view(S, B).sum(-1).double().cpu()
        kl = kl + 0.0 * (shape.sum(-1) + price)  # where nothing is dropped, the slope is 0
        found = torch.autograd.grad(kl.sum(), (shape, price))
        total, d_shape, d_price = total + kl.detach(), d_shape + found[0], d_price + found[1]
    return _Slopes(total.detach() / count, d_shape.detach() / count, d_price.detach() / count)


def bound_price_slope(slope: Tensor, kl: Tensor, epsilon: float) -> Tensor:
    """The price's slope, no steeper than if a step of epsilon took all of the KL away, for KL is never under 0; all [S].

    The straight-through slope can be far too steep (docs/what-was-measured.md): on tiny-qwen, `free`, it was -4e5, which no
    multiplier below its cap can hold.
    """
    return torch.maximum(slope, -kl.to(slope) / epsilon)


def minimise_price(price: Tensor, slope: Tensor, budget: float, w: Tensor, lam: Tensor) -> Tensor:
    """The price f that minimises slope * f + penalty(budget - f): phi with KL made linear; all [S], in closed form.

    The derivative is slope + max(0, w - lambda (B - f)), which is 0 at f = B - (w + slope) / lambda. So the penalty is
    minimised exactly, and w, which then moves to -slope, cannot run away. A slope above 0 (more FLOPs, more KL) is the
    noise of a few samples, and counts as 0. Away from the budget f goes no further than _FURTHEST at a time.
    """
    best = budget - (w + slope.clamp_max(0.0)) / lam
    low, high = price.clamp_max(budget) - _FURTHEST, price.clamp_min(budget) + _FURTHEST
    return torch.minimum(torch.maximum(best, low), high).clamp(0.0, 1.0)


def descent_direction(
    kernel: Kernel, shape: Tensor, slope: Tensor, price: Tensor, size: Pricing, gamma: float | None
) -> Tensor:
    """Downhill for each start, [S, P], longest number 1: steepest in the curve that is deployed, not in raw numbers.

    With J = d curve / d shape at a typical size it is -(J'J + damping)^-1 slope. Raw numbers are sigmoids' arguments: one
    near the end of its range moves its layer by a thousandth of what another moves, and would never get its turn.
    """
    rows = []
    for one, down, f in zip(shape, slope, price, strict=True):
        J = torch.autograd.functional.jacobian(  # type: ignore[no-untyped-call]
            lambda raw, f=f: project(kernel, raw[None], f[None], size, gamma=gamma)[0], one
        )
        metric = J.T @ J
        damping = _DAMPING * metric.diagonal().max().clamp_min(1e-12)
        step = -torch.linalg.solve(metric + damping * torch.eye(len(one), dtype=one.dtype), down)
        rows.append(step / step.abs().max().clamp_min(1e-12))
    return torch.stack(rows)


def unsaturate(kernel: Kernel, shape: Tensor, budget: float, size: Pricing) -> Tensor:
    """The same shapes [S, P], with saturated parameters moved to where their gradient does not vanish.

    A free curve that had to be lifted to the budget does not depend on its numbers any more, so it is written down anew
    as the curve that is deployed. And no number starts so far out that its sigmoid is flat.
    """
    if isinstance(kernel, Free):
        budgets = torch.full((len(shape),), budget, dtype=torch.float64)
        curves = project(kernel, shape, budgets, size).detach()
        shape = torch.stack([kernel.initial(curves.shape[1], retention=curve.tolist()) for curve in curves])
    return shape.clamp(-_LOOSE, _LOOSE)


def best_along(
    objective: Objective,
    batches: Sequence[Batch],
    kernel: Kernel,
    shape: Tensor,
    price: float,
    towards: Tensor,
    lengths: Sequence[float],
) -> tuple[Tensor, int]:
    """The best of shape [P] (place 0) and of those at some lengths along `towards`, by real dropping; and its place."""
    tried = torch.stack([shape + length * towards for length in (0.0, *lengths)])
    kl = torch.cat([measure_shapes(objective, batch, kernel, tried, price, warn=False) for batch in batches], dim=-1)
    place = int(kl.mean(-1).argmin())
    return tried[place], place
