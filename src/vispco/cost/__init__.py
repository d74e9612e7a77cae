"""Cost: what a schedule costs, and the schedule that meets a budget."""

from typing import Any

from vispco.cost.budget import BudgetWarning, clamp_budget
from vispco.cost.dimensions import Dimensions
from vispco.cost.exact import Exact
from vispco.cost.model import CostModel, Site
from vispco.cost.paper import Paper
from vispco.cost.snap import meet, snap
from vispco.cost.solve import counts_for_budget, schedule_for_budget, solve_kernel
from vispco.errors import UnknownNameError

COSTS: dict[str, type[CostModel]] = {cost.name: cost for cost in (Exact, Paper)}


def get(name: str, config: Any) -> CostModel:
    """The cost model `name` ("exact" or "paper") of a transformers config or of `Dimensions`."""
    if name not in COSTS:
        raise UnknownNameError("cost model", name, list(COSTS))
    return COSTS[name](config if isinstance(config, Dimensions) else Dimensions.from_config(config))


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
