"""Linear decay of the retention with depth."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from vispco.kernels.kernel import Kernel, logit


@dataclass(frozen=True, kw_only=True)
class Linear(Kernel):
    """Eq. kernel_lin of the paper: r - k * i, with k in (0, (r - r_min) / (L - 1)), so that nothing is clipped."""

    name: ClassVar[str] = "linear"
    budget_parameter: ClassVar[int] = 1

    def parameter_names(self, num_layers: int) -> tuple[str, ...]:  # noqa: ARG002
        return ("k", "r")

    def initial(self, num_layers: int, *, k: float | None = None, r: float = 1.0) -> Tensor:
        """Parameters [2] for slope k per layer (default: half of the steepest one that r allows)."""
        share = self._within("r", r, self.r_min, 1.0)
        steepest = (1.0 - self.r_min) * share / (num_layers - 1)
        slope = 0.5 if k is None else self._within("k", k, 0.0, steepest)
        return torch.tensor([logit(slope), logit(share)], dtype=torch.float64)

    def describe(self, params: Tensor, num_layers: int) -> dict[str, float]:
        """Slope k per layer and start r of the equation."""
        r = self._retention(params[1])
        return {"k": float(self._slope(params[0], r, num_layers)), "r": float(r)}

    def _slope(self, unbounded: Tensor, r: Tensor, num_layers: int) -> Tensor:
        return (r - self.r_min) * torch.sigmoid(unbounded) / (num_layers - 1)

    def _curve(self, params: Tensor, depth: Tensor, gamma: float | None) -> Tensor:  # noqa: ARG002
        r = self._retention(params[..., 1:2])
        return -self._slope(params[..., 0:1], r, depth.numel()) * depth + r  # Eq. kernel_lin of the paper
