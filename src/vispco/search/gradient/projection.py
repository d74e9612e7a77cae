"""Ours: a kernel's curve that costs the budget by construction, with its gradient.

Given all other parameters, the budget fixes one. It is found by bisection in the forward pass; the backward pass is the
implicit function theorem at the solution: from f(theta, B) = F(theta) / F_full - B = 0,

    d theta_b / d theta_i = - f_i / f_b,     d theta_b / d B = 1 / f_b,     f_i = d (F / F_full) / d theta_i.

Where that parameter alone cannot reach the budget (pruning starts too late even if nothing is kept), the curve is cut
from above or lifted from below as `vispco.cost.meet` does at deployment, again with its gradient: so the search cannot
leave the feasible set, and no penalty has to bring it back.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from vispco.cost import Cost, Workload, meet, solve_kernel
from vispco.cost.solve import PARAMETER_LIMIT
from vispco.kernels import Kernel

_TOUCHED = 1e-9  # a retention moved by less than this was moved by rounding only


@dataclass(frozen=True)
class Pricing:
    """What a curve's price depends on besides the curve: the samples [B] and the cost."""

    workload: Workload
    cost: Cost

    def fraction(self, retention: Tensor) -> Tensor:
        """F / F_full of each sample; retention [B, L] -> [B], float64, differentiable."""
        return self.cost.fraction(retention, self.workload)


class _Solve(torch.autograd.Function):
    """(params [B, P], budget [B]) -> params with the budget parameter moved."""

    @staticmethod
    def forward(
        ctx: Any, params: Tensor, budget: Tensor, kernel: Kernel, price: Pricing, gamma: float | None
    ) -> Tensor:
        solved = solve_kernel(kernel, params, budget, price.workload, price.cost, gamma=gamma)
        with torch.enable_grad():
            point = solved.detach().requires_grad_()
            whole = price.fraction(kernel(point, price.cost.num_layers, gamma=gamma)).sum()
            (slope,) = torch.autograd.grad(whole, point)
        ctx.save_for_backward(solved, slope)
        ctx.place = kernel.budget_parameter
        return solved

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        solved, slope = ctx.saved_tensors
        place, grad = ctx.place, grads[0].clone()
        f_b = slope[:, place]
        reached = (solved[:, place].abs() < PARAMETER_LIMIT - 1e-6) & (f_b > 1e-12)
        ratio = torch.where(reached, grad[:, place] / torch.where(reached, f_b, 1.0), 0.0)
        grad = grad - ratio[:, None] * slope
        grad[:, place] = 0.0
        return grad, ratio, None, None, None


class _Meet(torch.autograd.Function):
    """(retention [B, L], budget [B]) -> the curve cut from above, or lifted from below, to the budget."""

    @staticmethod
    def forward(ctx: Any, retention: Tensor, budget: Tensor, price: Pricing) -> Tensor:
        met = meet(retention, budget, price.workload, price.cost)
        with torch.enable_grad():
            point = met.detach().requires_grad_()
            (slope,) = torch.autograd.grad(price.fraction(point).sum(), point)
        ctx.save_for_backward((met - retention).abs() > _TOUCHED, slope)
        return met

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        moved, slope = ctx.saved_tensors
        (grad,) = grads
        # all moved layers share one level t: dt = (dB - sum_unmoved f_i dr_i) / sum_moved f_i
        below = (slope * moved).sum(-1)
        level = torch.where(below > 1e-12, (grad * moved).sum(-1) / below.clamp_min(1e-12), 0.0)
        return (grad - level[:, None] * slope) * ~moved, level, None


def project(kernel: Kernel, params: Tensor, budget: Tensor, price: Pricing, *, gamma: float | None = None) -> Tensor:
    """The retention [B, L] of params [B, P] at budgets [B]: F / F_full = budget, differentiable in both; float64."""
    params, budget = params.double(), budget.double()
    price = replace(price, workload=price.workload.pinned(kernel.earliest_layer))
    solved: Tensor = _Solve.apply(params, budget, kernel, price, gamma)  # type: ignore[no-untyped-call]
    retention = kernel(solved, price.cost.num_layers, gamma=gamma)
    met: Tensor = _Meet.apply(retention, budget, price)  # type: ignore[no-untyped-call]
    return met
