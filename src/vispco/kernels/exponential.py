"""Exponential decay of the retention with depth."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from vispco.kernels.kernel import Kernel, logit


@dataclass(frozen=True, kw_only=True)
class Exponential(Kernel):
    """Eq. kernel_exp of the paper: r * exp(-k * i), with k bounded so that the last layer keeps at least r_min.

    The raw slope sets how far the last layer falls between r and r_min; k follows from it. Nothing is clipped.
    """

    name: ClassVar[str] = "exponential"
    budget_parameter: ClassVar[int] = 1

    def parameter_names(self, num_layers: int) -> tuple[str, ...]:  # noqa: ARG002
        return ("k", "r")

    def initial(self, num_layers: int, *, k: float | None = None, r: float = 1.0) -> Tensor:
        """Parameters [2] for decay k per layer (default: the last layer keeps half-way between r and r_min)."""
        share = self._within("r", r, self.r_min, 1.0)
        start = self.r_min + (1.0 - self.r_min) * share
        if k is None:
            return torch.tensor([0.0, logit(share)], dtype=torch.float64)
        steepest = math.inf if self.r_min == 0.0 else math.log(start / self.r_min) / (num_layers - 1)
        self._within("k", k, 0.0, min(steepest, 1e6))
        fallen = -start * math.expm1(-k * (num_layers - 1)) / (start - self.r_min)
        return torch.tensor(
            [logit(self._within("fall", min(fallen, 1.0), 0.0, 1.0)), logit(share)], dtype=torch.float64
        )

    def describe(self, params: Tensor, num_layers: int) -> dict[str, float]:
        """Decay k per layer and start r of the equation."""
        r = self._retention(params[1])
        return {"k": float(self._decay(params[0], r, num_layers)), "r": float(r)}

    def _decay(self, unbounded: Tensor, r: Tensor, num_layers: int) -> Tensor:
        """The k for which the last layer keeps r_min + (r - r_min) * sigm(-unbounded), in a form that cannot overflow."""
        fall = -functional.logsigmoid(-unbounded)  # softplus, without its switch to the identity
        if self.r_min > 0.0:
            fall = fall - torch.logaddexp(math.log(self.r_min) - r.log() + unbounded, torch.zeros_like(unbounded))
        return fall / (num_layers - 1)

    def _curve(self, params: Tensor, depth: Tensor, gamma: float | None) -> Tensor:  # noqa: ARG002
        r = self._retention(params[..., 1:2])
        k = self._decay(params[..., 0:1], r, depth.numel())
        return r * torch.exp(-k * depth)  # Eq. kernel_exp of the paper
