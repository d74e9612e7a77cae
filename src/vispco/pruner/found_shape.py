"""`FoundShape`: the result of a static search for one budget, a shape that holds for all samples."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import torch
from torch import Tensor

from vispco.core.errors import parsing
from vispco.core.schedule import Schedule
from vispco.cost import Cost, Workload, schedule_for_budget
from vispco.kernels import Kernel


def deployed_gamma(kernel: Kernel) -> float | None:
    """The gamma at deployment: infinite (hard steps) for kernels whose gamma is annealed, else the kernel's own."""
    return math.inf if kernel.annealable else None


@dataclass(frozen=True, eq=False)
class FoundShape:
    """One budget's shape. params: [P]. kl: its mean over the calibration set. history: what happened, for the record.

    chain, kernel: as data, where a search gives each budget its own; None for those of the search.
    """

    budget: float
    params: Tensor
    kl: float
    converged: bool = True
    history: list[dict[str, Any]] = field(default_factory=list)
    chain: Mapping[str, Any] | None = None
    kernel: Mapping[str, Any] | None = None

    def schedule(self, kernel: Kernel, size: Workload, cost: Cost) -> Schedule:
        """The schedule for samples of one size; for others, the budget parameter is solved again (see `PrunerSpec.resolve`)."""
        return schedule_for_budget(
            kernel, self.params, self.budget, size, cost, gamma=deployed_gamma(kernel), fill=False
        )

    def to_dict(self) -> dict[str, Any]:
        own = {"chain": self.chain, "kernel": self.kernel}
        return {
            "budget": self.budget,
            "params": self.params.tolist(),
            "kl": self.kl,
            "converged": self.converged,
            "history": self.history,
            **{name: dict(value) for name, value in own.items() if value is not None},
        }

    @classmethod
    @parsing("a shape that a search found")
    def from_dict(cls, data: dict[str, Any]) -> Self:
        params = torch.tensor(data["params"], dtype=torch.float64)
        rest = (data.get("converged", True), data.get("history", []), data.get("chain"), data.get("kernel"))
        return cls(data["budget"], params, data["kl"], *rest)
