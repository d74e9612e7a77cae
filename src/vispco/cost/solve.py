"""From a budget to the retention that meets it: a kernel's parameter first, then a clamp that always can."""

import torch
from torch import Tensor

from vispco.cost.bisection import largest_fitting
from vispco.cost.budget import clamp_budget
from vispco.cost.model import CostModel, Number, Site
from vispco.cost.snap import snap
from vispco.errors import InvalidInputError
from vispco.kernels import Kernel
from vispco.schedule import Schedule

REACH = 40.0  # a sigmoid of +-40 is 1, and 4e-18, in float64: the ends of every kernel's range


def solve_kernel(
    kernel: Kernel,
    params: Tensor,
    budget: Tensor,
    num_text: Tensor,
    num_visual: Tensor,
    cost: CostModel,
    *,
    site: Site = "entry",
    gamma: float | None = None,
) -> Tensor:
    """Params [B, P] with the kernel's budget parameter moved so that F <= budget, as near as it can get: [B, P], float64.

    Where this one parameter cannot reach the budget it stays at the end of its range:
    `vispco.cost.snap.meet` goes the rest of the way.
    """
    params = params.detach().double()
    limit = torch.as_tensor(budget, dtype=torch.float64) * cost.full(num_text, num_visual)
    place = kernel.budget_parameter

    def moved(value: Tensor) -> Tensor:
        rest = params.expand(*value.shape, -1)
        return torch.cat([rest[..., :place], value[..., None], rest[..., place + 1 :]], dim=-1)

    def fits(value: Tensor) -> Tensor:
        retention = kernel(moved(value), cost.num_layers, gamma=gamma)
        return cost.flops(retention, num_text, num_visual, site=site) <= limit

    ends = (params.new_full(params.shape[:-1], end) for end in (-REACH, REACH))
    return moved(largest_fitting(fits, *ends))


def counts_for_budget(
    kernel: Kernel,
    params: Tensor,
    budget: Tensor,
    num_text: Tensor,
    num_visual: Tensor,
    cost: CostModel,
    *,
    site: Site = "entry",
    gamma: float | None = None,
    fill: bool = True,
) -> Tensor:
    """Whole tokens [B, L] with F <= budget for every sample and within one token of it (see `snap`); params [B, P]."""
    budget = clamp_budget(budget, num_text, num_visual, cost, site=site, first_full=kernel.first_full)
    solved = solve_kernel(kernel, params, budget, num_text, num_visual, cost, site=site, gamma=gamma)
    retention = kernel(solved, cost.num_layers, gamma=gamma)
    return snap(retention, budget, num_text, num_visual, cost, site=site, first_full=kernel.first_full, fill=fill)


def schedule_for_budget(
    kernel: Kernel,
    params: Tensor,
    budget: Number,
    num_text: int | Tensor,
    num_visual: int | Tensor,
    cost: CostModel,
    *,
    site: Site = "entry",
    gamma: float | None = None,
    fill: bool = True,
) -> Schedule:
    """The kernel's curve moved to a budget, as whole tokens.

    params [P] with plain numbers gives one Schedule for samples of that size; params [B, P], or [B] numbers of tokens
    or budgets, gives one per sample. `schedule.counts(num_visual)` are the solved counts.
    """
    text, visual = (torch.as_tensor(number, dtype=torch.int64, device="cpu") for number in (num_text, num_visual))
    fraction = torch.as_tensor(budget, dtype=torch.float64, device="cpu")
    batch = torch.broadcast_shapes(text.shape, visual.shape, fraction.shape, params.shape[:-1])  # type: ignore[no-untyped-call]
    if len(batch) > 1:
        raise InvalidInputError(f"Inputs for a batch of shape {list(batch)} were given. Give one dimension of samples.")
    text, visual, fraction = (each.expand(batch).reshape(-1) for each in (text, visual, fraction))
    rows = params.cpu().expand(*batch, params.shape[-1]).reshape(-1, params.shape[-1])
    counts = counts_for_budget(kernel, rows, fraction, text, visual, cost, site=site, gamma=gamma, fill=fill)
    if batch:
        return Schedule.from_counts(counts, visual.tolist())
    return Schedule.from_counts(counts[0], int(visual[0]))
