"""Equal steps at evenly spaced layers, as in the paper."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from vispco.core.errors import InvalidInputError
from vispco.kernels.kernel import MARGIN, Kernel, logit


@dataclass(frozen=True, kw_only=True)
class MultiStep(Kernel):
    """Eq. kernel_ms of the paper: M equal steps, the j-th at layer (2j - 1) L / (2M); k > 0 is their steepness."""

    name: ClassVar[str] = "multi-step"
    budget_parameter: ClassVar[int] = 1

    steps: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.steps < 1:
            raise InvalidInputError(f"steps={self.steps} was given to kernel {self.name!r}. Give 1 or more.")

    def parameter_names(self, num_layers: int) -> tuple[str, ...]:  # noqa: ARG002
        return ("k", "r")

    def initial(self, num_layers: int, *, k: float = 2.0, r: float = 0.5) -> Tensor:  # noqa: ARG002
        """Parameters [2] for steepness k and final retention r."""
        if not k > 0.0:
            raise InvalidInputError(f"k={k} was given to kernel {self.name!r}. Its steepness is above 0.")
        unbounded = k + math.log(-math.expm1(-max(k, MARGIN)))  # the inverse of softplus
        return torch.tensor([unbounded, logit(self._within("r", r, self.r_min, 1.0))], dtype=torch.float64)

    def describe(self, params: Tensor, num_layers: int) -> dict[str, float]:  # noqa: ARG002
        """Steepness k and final retention r of the equation."""
        return {"k": float(functional.softplus(params[0])), "r": float(self._retention(params[1]))}

    def _curve(self, params: Tensor, depth: Tensor, gamma: float | None) -> Tensor:  # noqa: ARG002
        k = functional.softplus(params[..., 0:1])
        r = self._retention(params[..., 1:2])
        j = torch.arange(1, self.steps + 1, dtype=depth.dtype, device=depth.device)
        centre = (2 * j - 1) * depth.numel() / (2 * self.steps)  # [M]
        passed = torch.sigmoid(k[..., None] * (depth[:, None] - centre)).sum(dim=-1)  # [..., L]
        return 1.0 - (1.0 - r) / self.steps * passed  # Eq. kernel_ms of the paper
