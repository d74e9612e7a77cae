"""Solving for a budget: bisection on a kernel's parameter, then scaling of the curve, then rounding to whole tokens."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from vispco.core.errors import InvalidInputError
from vispco.core.schedule import Schedule
from vispco.cost.budget import Budget
from vispco.cost.cost import Cost
from vispco.cost.floor import clamp
from vispco.cost.host import HostPricing, as_array, largest_number
from vispco.cost.workload import Array, Workload
from vispco.kernels import Kernel

PARAMETER_LIMIT = 40.0  # a sigmoid of +-40 is 1, and 4e-18, in float64: the ends of every kernel's range
_PROBES = np.array([-PARAMETER_LIMIT, PARAMETER_LIMIT, -1.3, 0.4, 2.1])  # where a kernel is asked whether it is a line
_STRAIGHT = 1e-13


def largest_fitting(fits: Callable[[Tensor], Tensor], low: Tensor, high: Tensor) -> Tensor:
    """`largest_number` for tensors on any device: low, high [B] -> [B]."""

    def test(candidates: Array) -> Array:
        return as_array(fits(torch.from_numpy(candidates).to(low.device)))

    return torch.from_numpy(np.asarray(largest_number(test, as_array(low), as_array(high)))).to(low.device)


def solve_kernel(
    kernel: Kernel, params: Tensor, budget: Tensor, workload: Workload, cost: Cost, *, gamma: float | None = None
) -> Tensor:
    """Params [B, P] with the kernel's budget parameter moved to the highest price within the budget [B]: [B, P], float64.

    Where this one parameter cannot reach the budget it stays at the end of its range, and `vispco.cost.meet` does the
    rest.
    """
    params = params.detach().double()
    limit = torch.as_tensor(budget, dtype=torch.float64) * cost.full(workload)
    place = kernel.budget_parameter

    def moved(value: Tensor) -> Tensor:
        rest = params.expand(*value.shape, -1)
        return torch.cat([rest[..., :place], value[..., None], rest[..., place + 1 :]], dim=-1)

    def fits(value: Tensor) -> Tensor:
        return cost.relaxed(kernel(moved(value), cost.num_layers, gamma=gamma), workload) <= limit

    ends = (params.new_full(params.shape[:-1], end) for end in (-PARAMETER_LIMIT, PARAMETER_LIMIT))
    return moved(largest_fitting(fits, *ends))


class MovableCurves:
    """Curves [n, L] of a kernel, each of which is moved to a budget by the kernel's one budget parameter, on the host.

    Most kernels are a straight line between two curves as it moves: the sigmoid of it says how far. Then the kernel is called
    once, here, and a cost that is a polynomial has the answer in closed form. params: [n, P].
    """

    def __init__(self, kernel: Kernel, params: Tensor, num_layers: int, *, gamma: float | None = None) -> None:
        self.kernel, self.params, self.gamma = kernel, params.detach().double(), gamma
        probes = self.params.repeat(len(_PROBES), 1, 1)
        probes[:, :, kernel.budget_parameter] = torch.from_numpy(_PROBES)[:, None]
        curves = as_array(kernel(probes, num_layers, gamma=gamma))  # [5, n, L]
        self.start, self.direction = curves[0], curves[1] - curves[0]
        between = self.start + (1.0 / (1.0 + np.exp(-_PROBES[2:])))[:, None, None] * self.direction
        self.straight = bool(np.abs(curves[2:] - between).max(initial=0.0) <= _STRAIGHT)

    def solve(self, rows: Array, budget: Array, pricing: HostPricing) -> Array:
        """Some of the curves [m], with the highest price within their budgets [m]; see `solve_kernel`: [m, L]."""
        if not self.straight:
            budgets, params = torch.from_numpy(budget), self.params[torch.from_numpy(rows)]
            solved = solve_kernel(self.kernel, params, budgets, pricing.workload, pricing.cost, gamma=self.gamma)
            return as_array(self.kernel(solved, pricing.cost.num_layers, gamma=self.gamma))
        start, direction = self.start[rows], self.direction[rows]
        share = pricing.cost.host_share(start, direction, budget, pricing)
        return np.minimum.accumulate(start + share[:, None] * direction, axis=1)

    def counts(
        self,
        rows: Array,
        budget: Array,
        workload: Workload,
        cost: Cost,
        *,
        fill: bool = True,
        asked: Budget | None = None,
    ) -> Array:
        """`counts_for_budget` of some of the curves: [m, L], for samples [m] with budgets [m]."""
        pricing = HostPricing(cost, workload.pinned(self.kernel.earliest_layer))
        limits = clamp(budget, pricing, asked)
        curve = self.solve(rows, limits, pricing)
        if pricing.charges:
            curve = self.solve(rows, limits, pricing.paying(pricing.falls_of(curve)))
        return pricing.snap(curve, limits, fill=fill)


def counts_for_budget(
    kernel: Kernel,
    params: Tensor,
    budget: Tensor,
    workload: Workload,
    cost: Cost,
    *,
    gamma: float | None = None,
    fill: bool = True,
    asked: Budget | None = None,
) -> Tensor:
    """Whole tokens [B, L] that cost at most the budget [B], as near to it as `snap` says; params [B, P].

    Layers that the kernel keeps full are not pruned, even where the workload would allow it.
    asked: what the budget comes from, such as 40 ms with the cost's margin left free: a warning names the floor in its unit.
    """
    budgets = as_array(torch.as_tensor(budget, dtype=torch.float64)).reshape(-1)
    curves = MovableCurves(kernel, params, cost.num_layers, gamma=gamma)
    return torch.from_numpy(curves.counts(np.arange(len(params)), budgets, workload, cost, fill=fill, asked=asked))


def schedule_for_budget(
    kernel: Kernel,
    params: Tensor,
    budget: float | Tensor,
    workload: Workload,
    cost: Cost,
    *,
    gamma: float | None = None,
    fill: bool = True,
) -> Schedule:
    """The kernel's curve moved to a budget, as whole tokens.

    params [P] and a workload of one sample without a batch dimension give one Schedule for samples of that size;
    params [B, P], a workload [B] or budgets [B] give one per sample. `schedule.counts(num_visual)` are the solved counts.
    """
    text, visual = workload.num_text.cpu(), workload.num_visual.cpu()
    fraction = torch.as_tensor(budget, dtype=torch.float64, device="cpu")
    batch = torch.broadcast_shapes(text.shape, visual.shape, fraction.shape, params.shape[:-1])  # type: ignore[no-untyped-call]
    if len(batch) > 1:
        raise InvalidInputError(f"Inputs for a batch of shape {list(batch)} were given. Give one dimension of samples.")
    text, visual, fraction = (each.expand(batch).reshape(-1) for each in (text, visual, fraction))
    rows = params.cpu().expand(*batch, params.shape[-1]).reshape(-1, params.shape[-1])
    sizes = replace(workload, num_text=text, num_visual=visual)
    counts = counts_for_budget(kernel, rows, fraction, sizes, cost, gamma=gamma, fill=fill)
    if batch:
        return Schedule.from_counts(counts, visual.tolist())
    return Schedule.from_counts(counts[0], int(visual[0]))


def meet(retention: Tensor, budget: Tensor, workload: Workload, cost: Cost) -> Tensor:
    """The curve [B, L] cut from above, or lifted from below, until it costs the budget [B]: [B, L], float64.

    clamp(r, t - 1, t) for t in [0, 2] runs from nothing (t = 0) through the curve itself (t = 1) to everything (t = 2),
    costs more with every t, and stays non-increasing: so every budget between floor and 1 is met.
    """
    curve, first = retention.detach().double(), workload.earliest_layer

    def clamped(t: Tensor) -> Tensor:
        cut = torch.minimum(torch.maximum(curve, t[..., None] - 1.0), t[..., None])
        return torch.cat([torch.ones_like(cut[..., :first]), cut[..., first:]], dim=-1) if first else cut

    def fits(t: Tensor) -> Tensor:
        return cost.relaxed(clamped(t), workload) <= limit

    limit = budget * cost.full(workload)
    unchanged = curve.new_ones(curve.shape[:-1])
    lift = fits(unchanged)  # which side of 1: there the curve itself is kept to the bit
    low, high = torch.where(lift, unchanged, 0.0), torch.where(lift, 2.0, unchanged)
    return clamped(largest_fitting(fits, low, high))


def snap(retention: Tensor, budget: Tensor, workload: Workload, cost: Cost, *, fill: bool = True) -> Tensor:
    """Whole tokens [B, L] (int64) along the curve retention [B, L], non-increasing, that cost at most the budget [B].

    Plateaus of the curve stay whole: layers that keep the same share process the same tokens. Within one token at the
    layers that drop: no plateau can have one more token, without growing over the one before, and the price still meet the
    budget. With `fill=False` one more token through the plateau that is next to round up exceeds the budget.
    """
    shape = workload.num_visual.shape
    pricing = HostPricing(cost, workload.in_a_row)
    curve = as_array(retention).astype(np.float64)
    curve = np.broadcast_to(curve, (*shape, curve.shape[-1])).reshape(-1, curve.shape[-1])
    limits = clamp(as_array(torch.as_tensor(budget, dtype=torch.float64)).reshape(-1), pricing)
    return torch.from_numpy(pricing.snap(curve, limits, fill=fill)).reshape(*shape, -1)
