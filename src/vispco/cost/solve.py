"""From a budget to the retention that meets it: a kernel's parameter first, then a clamp that always can."""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from vispco.cost.cost import Cost
from vispco.cost.floor import clamp
from vispco.cost.host import Array, HostPricing, as_array
from vispco.cost.largest_fitting import largest_fitting
from vispco.cost.workload import Workload
from vispco.errors import InvalidInputError
from vispco.kernels import Kernel
from vispco.schedule import Schedule

PARAMETER_LIMIT = 40.0  # a sigmoid of +-40 is 1, and 4e-18, in float64: the ends of every kernel's range
PROBES = np.array([-PARAMETER_LIMIT, PARAMETER_LIMIT, -1.3, 0.4, 2.1])  # where a kernel is asked whether it is a line
STRAIGHT = 1e-13


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


def counts_for_budget(
    kernel: Kernel,
    params: Tensor,
    budget: Tensor,
    workload: Workload,
    cost: Cost,
    *,
    gamma: float | None = None,
    fill: bool = True,
) -> Tensor:
    """Whole tokens [B, L] that cost at most the budget [B], as near to it as `snap` says; params [B, P].

    Layers that the kernel keeps full are not pruned, even where the workload would allow it.
    """
    pricing = HostPricing(cost, workload.pinned(kernel.earliest_layer))
    limits = clamp(as_array(torch.as_tensor(budget, dtype=torch.float64)).reshape(-1), pricing)
    curve = solve_curve(kernel, params, limits, pricing, gamma=gamma)
    if cost.drop_price:
        curve = solve_curve(kernel, params, pricing.without_drops(curve, limits), pricing, gamma=gamma)
    return torch.from_numpy(pricing.snap(curve, limits, fill=fill))


def solve_curve(
    kernel: Kernel, params: Tensor, budget: Array, pricing: HostPricing, *, gamma: float | None = None
) -> Array:
    """The curve [B, L] of `solve_kernel`, on the host.

    Most kernels are a straight line between two curves as their budget parameter moves: the sigmoid of it says how far. Then
    one call of the kernel is enough, and a cost that is a polynomial has the answer in closed form.
    """
    rows, place, layers = params.detach().double(), kernel.budget_parameter, pricing.cost.num_layers
    probes = rows.repeat(len(PROBES), 1, 1)
    probes[:, :, place] = torch.from_numpy(PROBES)[:, None]
    curves = as_array(kernel(probes, layers, gamma=gamma))  # [5, B, L]
    start, direction = curves[0], curves[1] - curves[0]
    between = start + (1.0 / (1.0 + np.exp(-PROBES[2:])))[:, None, None] * direction
    if np.abs(curves[2:] - between).max(initial=0.0) > STRAIGHT:
        solved = solve_kernel(kernel, rows, torch.from_numpy(budget), pricing.workload, pricing.cost, gamma=gamma)
        return as_array(kernel(solved, layers, gamma=gamma))
    share = pricing.cost.host_share(start, direction, budget, pricing)
    return np.minimum.accumulate(start + share[:, None] * direction, axis=1)


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
