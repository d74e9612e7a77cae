"""Cost: what the tokens of a schedule cost, and the schedule that meets a budget.

To add a cost: a frozen dataclass that derives from `Cost`, has a `name` and a `unit` and writes `price`, registered by
`@COSTS.register` or by an entry point of the group `vispco.costs`.
"""

from collections.abc import Mapping
from typing import Any

from vispco.core.errors import InvalidInputError
from vispco.core.registry import Registry
from vispco.cost.budget import Budget, BudgetLike, parse_budgets
from vispco.cost.cost import Cost
from vispco.cost.dimensions import Dimensions
from vispco.cost.floor import BudgetWarning, clamp_budget
from vispco.cost.formulas import Exact, KvBytes, Paper
from vispco.cost.solve import MovableCurves, counts_for_budget, meet, schedule_for_budget, snap, solve_kernel
from vispco.cost.time_profile import Measured, TimeProfile
from vispco.cost.workload import Workload

COSTS: Registry[type[Cost]] = Registry("cost", "vispco.costs")
for _cost in (Exact, Paper, KvBytes, Measured):
    COSTS.register(_cost)


def get(name: str, config: Any) -> Cost:
    """The cost registered under `name` ("exact", "paper", "kv-bytes") for a transformers config or `Dimensions`."""
    cost = COSTS.get(name)
    return cost(config if isinstance(config, Dimensions) else Dimensions.from_config(config))


def from_dict(data: Mapping[str, Any]) -> Cost:
    """The cost that `to_dict` wrote."""
    if not isinstance(data, Mapping) or not isinstance(data.get("name"), str):
        raise InvalidInputError(
            f'{data!r} is not a cost: it has no "name". A cost is {{"name": "exact", "dimensions": {{...}}}}.'
        )
    return COSTS.get(data["name"]).from_dict(data)


__all__ = [
    "COSTS",
    "Budget",
    "BudgetLike",
    "BudgetWarning",
    "Cost",
    "Dimensions",
    "Exact",
    "KvBytes",
    "Measured",
    "MovableCurves",
    "Paper",
    "TimeProfile",
    "Workload",
    "clamp_budget",
    "counts_for_budget",
    "from_dict",
    "get",
    "meet",
    "parse_budgets",
    "schedule_for_budget",
    "snap",
    "solve_kernel",
]
