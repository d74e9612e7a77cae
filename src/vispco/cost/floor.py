"""The floor of a budget: what cannot be pruned."""

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from vispco.core.errors import InvalidInputError
from vispco.cost.budget import Budget
from vispco.cost.cost import Cost
from vispco.cost.host import HostPricing, as_array
from vispco.cost.workload import Array, Workload


class BudgetWarning(UserWarning):
    """A budget lies under the floor and was raised to it."""


_RAISED: ContextVar[list[str] | None] = ContextVar("raised", default=None)


@contextmanager
def raised_budgets() -> Iterator[list[str]]:
    """What was warned of inside the block, in this thread: empty where every budget was met."""
    found: list[str] = []
    token = _RAISED.set(found)
    try:
        yield found
    finally:
        _RAISED.reset(token)


def clamp_budget(budget: Tensor, workload: Workload, cost: Cost, asked: Budget | None = None) -> Tensor:
    """Fractions [B] of the unpruned model's price, raised to each sample's floor; a warning names the highest floor.

    asked: what the fractions come from, such as 40 ms; the warning is in its unit.
    A sample without visual tokens has nothing to prune: its budget is 1, without a warning.
    """
    shape = workload.num_visual.shape
    pricing = HostPricing(cost, workload.in_a_row)
    found = clamp(as_array(torch.as_tensor(budget, dtype=torch.float64)).reshape(-1), pricing, asked)
    return torch.from_numpy(found).reshape(shape)


def clamp(budget: Array, pricing: HostPricing, asked: Budget | None = None) -> Array:
    """`clamp_budget` of arrays [n]. asked: what `budget` comes from, less the cost's margin; the warning is in its unit."""
    cost, floor = pricing.cost, pricing.lowest
    if ((budget < 0) | (budget > 1) | np.isnan(budget)).any():
        raise InvalidInputError(
            f"The budget {budget.tolist()} was given. "
            f"A budget is a fraction of the unpruned language model's {cost.unit}: give numbers in (0, 1]."
        )
    budget = np.broadcast_to(budget, floor.shape)
    under = (budget < np.minimum(floor, 1.0)) & ((pricing.visual > 0) | (asked is not None))
    if under.any():
        worst = int(np.where(under, floor - budget, -1.0).argmax())
        margin = 0.0 if asked is None else cost.margin
        if asked is None:
            given, lowest = f"{budget[worst]:.4g}", f"{floor[worst]:.4g}"
        else:
            given, lowest = asked.label, _floor_of(asked, np.where(under, floor, 0.0), pricing).label
        sentence = (
            f"A budget of {given} lies under the floor of {lowest}: what the text{_unprunable(pricing, margin)} cost "
            f"({cost.name} {cost.unit}, {int(under.sum())} of {under.size} samples). It was raised to the floor."
        )
        warnings.warn(sentence, BudgetWarning, stacklevel=3)
        if (told := _RAISED.get()) is not None:
            told.append(sentence)
    raised: Array = np.maximum(budget, floor)
    return raised


def _floor_of(asked: Budget, floor: Array, pricing: HostPricing) -> Budget:
    """The lowest budget of the same kind that lies under none of the floors [n], rounded up to the digits that are shown."""
    share = np.minimum(floor / (1.0 - pricing.cost.margin), 1.0)
    if asked.is_relative:
        return replace(asked, amount=min(_rounded_up(float(share.max())), 1.0))
    return replace(asked, amount=_rounded_up(float((share * pricing.divisor).max())))


def _rounded_up(number: float) -> float:
    """Round up to four significant digits, so that a budget as it is shown lies above the floor."""
    unit = 10.0 ** (math.floor(math.log10(number)) - 3)
    return float(f"{math.ceil(number / unit + 1e-9) * unit:.4g}")


def _unprunable(pricing: HostPricing, margin: float) -> str:
    layers = pricing.first
    parts = ["the unprunable first layer" + (f"s (0 to {layers - 1})" if layers > 1 else "")] if layers else []
    parts += ["the visual tokens whose output is read"] if pricing.read.any() else []
    parts += ["the choice itself"] if pricing.charges else []
    parts += [f"a margin of {margin:.0%}"] if margin else []
    return "".join(f"{' and' if part == parts[-1] else ','} {part}" for part in parts)
