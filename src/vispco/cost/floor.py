"""The floor of a budget: what cannot be pruned."""

import warnings

import torch
from torch import Tensor

from vispco.cost.cost import Cost
from vispco.cost.workload import Workload
from vispco.errors import InvalidInputError


class BudgetWarning(UserWarning):
    """A budget lies under the floor and was raised to it."""


def clamp_budget(budget: Tensor, workload: Workload, cost: Cost) -> Tensor:
    """Fractions [B] of the unpruned model's price, raised to each sample's floor; a warning names the highest floor.

    A sample without visual tokens has nothing to prune: its budget is 1, without a warning.
    """
    budget = torch.as_tensor(budget, dtype=torch.float64)
    if bool(((budget < 0) | (budget > 1) | budget.isnan()).any()):
        raise InvalidInputError(
            f"The budget {budget.tolist()} was given. "
            f"A budget is a fraction of the unpruned language model's {cost.unit}: give numbers in (0, 1]."
        )
    floor = cost.lowest_fraction(workload)
    budget = budget.expand_as(floor)
    under = (budget < floor) & (workload.num_visual > 0)
    if bool(under.any()):
        worst = torch.where(under, floor - budget, -1.0).argmax()
        warnings.warn(
            f"A budget of {float(budget.flatten()[worst]):.4g} lies under the floor of {float(floor.flatten()[worst]):.4g}: "
            f"what the text{_unprunable(workload.earliest_layer)} cost "
            f"({cost.name} {cost.unit}, {int(under.sum())} of {under.numel()} samples). It was raised to the floor.",
            BudgetWarning,
            stacklevel=2,
        )
    return torch.maximum(budget, floor)


def _unprunable(layers: int) -> str:
    return "" if layers == 0 else " and the unprunable first layer" + (f"s (0 to {layers - 1})" if layers > 1 else "")
