"""Cost: what a schedule costs, and the schedule that meets a budget."""

from typing import Any

from vispco.cost.budget import BudgetWarning, clamp_budget
from vispco.cost.dimensions import Dimensions
from vispco.cost.exact import Exact
from vispco.cost.model import CostModel, Site
from vispco.cost.paper import Paper
from vispco.cost.snap import meet, snap
from vispco.cost.solve import counts_for_budget, schedule_for_budget, solve_kernel
from vispco.registry import Registry

COSTS: Registry[type[CostModel]] = Registry("cost", "vispco.costs")
for _cost in (Exact, Paper):
    COSTS.register(_cost)


def get(name: str, config: Any) -> CostModel:
    """The cost registered under `name` ("exact", "paper") for a transformers config or `Dimensions`."""
    cost = COSTS.get(name)
    return cost(config if isinstance(config, Dimensions) else Dimensions.from_config(config))


__all__ = [
    "COSTS",
    "BudgetWarning",
    "CostModel",
    "Dimensions",
    "Exact",
    "Paper",
    "Site",
    "clamp_budget",
    "counts_for_budget",
    "get",
    "meet",
    "schedule_for_budget",
    "snap",
    "solve_kernel",
]
