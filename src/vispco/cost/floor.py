"""The floor of a budget: what cannot be pruned."""

import warnings

import numpy as np
import torch
from torch import Tensor

from vispco.cost.cost import Cost
from vispco.cost.host import Array, HostPricing, as_array
from vispco.cost.workload import Workload
from vispco.errors import InvalidInputError


class BudgetWarning(UserWarning):
    """A budget lies under the floor and was raised to it."""


def clamp_budget(budget: Tensor, workload: Workload, cost: Cost) -> Tensor:
    """Fractions [B] of the unpruned model's price, raised to each sample's floor; a warning names the highest floor.

    A sample without visual tokens has nothing to prune: its budget is 1, without a warning.
    """
    shape = workload.num_visual.shape
    pricing = HostPricing(cost, workload if len(shape) == 1 else flat(workload))
    found = clamp(as_array(torch.as_tensor(budget, dtype=torch.float64)).reshape(-1), pricing)
    return torch.from_numpy(found).reshape(shape)


def clamp(budget: Array, pricing: HostPricing) -> Array:
    """`clamp_budget` of arrays [n]."""
    cost, floor = pricing.cost, pricing.lowest
    if ((budget < 0) | (budget > 1) | np.isnan(budget)).any():
        raise InvalidInputError(
            f"The budget {budget.tolist()} was given. "
            f"A budget is a fraction of the unpruned language model's {cost.unit}: give numbers in (0, 1]."
        )
    budget = np.broadcast_to(budget, floor.shape)
    under = (budget < floor) & (pricing.visual > 0)
    if under.any():
        worst = int(np.where(under, floor - budget, -1.0).argmax())
        warnings.warn(
            f"A budget of {budget[worst]:.4g} lies under the floor of {floor[worst]:.4g}: "
            f"what the text{_unprunable(pricing)} cost "
            f"({cost.name} {cost.unit}, {int(under.sum())} of {under.size} samples). It was raised to the floor.",
            BudgetWarning,
            stacklevel=3,
        )
    raised: Array = np.maximum(budget, floor)
    return raised


def flat(workload: Workload) -> Workload:
    """The same samples in one dimension."""
    return workload.each(lambda numbers: numbers.reshape(-1))


def _unprunable(pricing: HostPricing) -> str:
    layers = pricing.first
    parts = [f" the unprunable first layer{f's (0 to {layers - 1})' if layers > 1 else ''}"] * bool(layers)
    parts += [" the visual tokens whose output is read"] * bool(pricing.read.any())
    parts += [" the choice itself"] * pricing.charges
    return "".join(f"{',' if part is not parts[-1] else ' and'}{part}" for part in parts)
