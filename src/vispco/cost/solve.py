"""From a budget to the retention that meets it: a kernel's parameter first, then a clamp that always can."""

from dataclasses import replace

import torch
from torch import Tensor

from vispco.cost.cost import Cost
from vispco.cost.floor import clamp_budget
from vispco.cost.largest_fitting import largest_fitting
from vispco.cost.snap import snap
from vispco.cost.workload import Workload
from vispco.errors import InvalidInputError
from vispco.kernels import Kernel
from vispco.schedule import Schedule

PARAMETER_LIMIT = 40.0  # a sigmoid of +-40 is 1, and 4e-18, in float64: the ends of every kernel's range


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
    """Whole tokens [B, L] that cost at most the budget [B] and are within one token of it (see `snap`); params [B, P].

    Layers that the kernel keeps full are not pruned, even where the workload would allow it.
    """
    workload = workload.pinned(kernel.earliest_layer)
    budget = clamp_budget(budget, workload, cost)
    solved = solve_kernel(kernel, params, budget, workload, cost, gamma=gamma)
    return snap(kernel(solved, cost.num_layers, gamma=gamma), budget, workload, cost, fill=fill)


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
