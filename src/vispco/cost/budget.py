"""What a budget means for one sample: a number of FLOPs, never under what the text alone costs."""

import warnings

import torch
from torch import Tensor

from vispco.cost.model import CostModel, Site
from vispco.errors import InvalidInputError


class BudgetWarning(UserWarning):
    """A budget lies under the text-only floor and was raised to it."""


def clamp_budget(
    budget: Tensor,
    num_text: Tensor,
    num_visual: Tensor,
    cost: CostModel,
    *,
    site: Site = "entry",
    first_full: bool = True,
) -> Tensor:
    """Fractions [B] of the unpruned model's FLOPs, raised to each sample's floor; a warning names the highest floor.

    A sample without visual tokens has nothing to prune: its budget is 1, silently.
    """
    budget = torch.as_tensor(budget, dtype=torch.float64)
    if bool(((budget < 0) | (budget > 1) | budget.isnan()).any()):
        raise InvalidInputError(
            f"The budget {budget.tolist()} was given. "
            "A budget is a fraction of the unpruned language model's FLOPs: give numbers in (0, 1]."
        )
    floor = cost.floor(num_text, num_visual, site=site, first_full=first_full).double()
    floor = floor / cost.full(num_text, num_visual).clamp_min(1).double()
    budget = budget.expand_as(floor)
    under = (budget < floor) & (num_visual > 0)
    if bool(under.any()):
        worst = torch.where(under, floor - budget, -1.0).argmax()
        warnings.warn(
            f"A budget of {float(budget.flatten()[worst]):.4g} lies under the floor of {float(floor.flatten()[worst]):.4g}: "
            f"what the text{' and the unprunable first layer' if first_full else ''} cost "
            f"({cost.name} FLOPs, {int(under.sum())} of {under.numel()} samples). It was raised to the floor.",
            BudgetWarning,
            stacklevel=2,
        )
    return torch.maximum(budget, floor)


def flops_limit(budget: Tensor, full: Tensor) -> Tensor:
    """The most FLOPs F (int64) with F / full <= budget in float64: budget [B], full [B] -> [B]."""
    whole = full.double()
    limit = (budget * whole).floor().long()
    limit = torch.where((limit + 1).double() / whole <= budget, limit + 1, limit)
    return torch.where(limit.double() / whole <= budget, limit, limit - 1)
