"""The paper's kernels: one step (`single`, gentle as `p-sigmoid`), linear and exponential decay, equal steps (`multi-step`)."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from vispco.core.errors import InvalidInputError
from vispco.kernels.kernel import MARGIN, Kernel, logit, transition


class _PaperKernel(Kernel):
    """The paper's kernels have two parameters, of which r meets a budget."""

    budget_parameter: ClassVar[int] = 1

    def parameter_names(self, num_layers: int) -> tuple[str, ...]:  # noqa: ARG002
        return ("k", "r")


@dataclass(frozen=True, kw_only=True)
class Single(_PaperKernel):
    """Eq. kernel_single of the paper: 1 + (r - 1) * sigm(gamma * (i - k)), with k in (-1, L) and r in (r_min, 1).

    At gamma = 10 a layer whose distance to k is 1 misses its plateau by 5e-5 of the tokens, which rounds away in whole
    tokens, but one at distance 1/2 by 0.7 %, which does not: deploy with gamma = inf, where layers i >= k keep r.
    """

    name: ClassVar[str] = "single"
    annealable: ClassVar[bool] = True

    gamma: float = 10.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.gamma > 0.0:
            raise InvalidInputError(f"gamma={self.gamma} was given to kernel {self.name!r}. Give a number above 0.")

    def initial(self, num_layers: int, *, k: float | None = None, layer: int | None = None, r: float = 0.5) -> Tensor:
        """Parameters [2] for centre k, or for `layer`, the first pruned layer (k half a layer before it; default L / 3)."""
        if k is not None and layer is not None:
            raise InvalidInputError(
                f"Both k={k} and layer={layer} were given to kernel {self.name!r}. Give one of them."
            )
        first = max(num_layers // 3, 1) if layer is None else layer
        centre = first - 0.5 if k is None else k
        place = self._within("k", centre, -1.0, float(num_layers))
        share = self._within("r", r, self.r_min, 1.0)
        return torch.tensor([logit(place), logit(share)], dtype=torch.float64)

    def describe(self, params: Tensor, num_layers: int) -> dict[str, float]:
        """Centre k and final retention r of the equation, and the first layer at or behind the centre."""
        k = float(self._centre(params[0], num_layers))
        return {"k": k, "r": float(self._retention(params[1])), "layer": float(math.ceil(k))}

    def _centre(self, unbounded: Tensor, num_layers: int) -> Tensor:
        # (-1, L): "from layer 0 on" (k = -1/2) and "never" (k = L - 1/2) are inside, where the gradient is alive
        return -1.0 + (num_layers + 1.0) * torch.sigmoid(unbounded)

    def _curve(self, params: Tensor, depth: Tensor, gamma: float | None) -> Tensor:
        k = self._centre(params[..., 0:1], depth.numel())
        r = self._retention(params[..., 1:2])
        # Eq. kernel_single of the paper
        return 1.0 + (r - 1.0) * transition(depth - k, self.gamma if gamma is None else gamma)


@dataclass(frozen=True, kw_only=True)
class PSigmoid(Single):
    """Eq. kernel_single of the paper with a small gamma: a gradual transition around layer k."""

    name: ClassVar[str] = "p-sigmoid"
    annealable: ClassVar[bool] = False

    gamma: float = 0.5


@dataclass(frozen=True, kw_only=True)
class Linear(_PaperKernel):
    """Eq. kernel_lin of the paper: r - k * i, with k in (0, (r - r_min) / (L - 1)), so that nothing is clipped."""

    name: ClassVar[str] = "linear"

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


@dataclass(frozen=True, kw_only=True)
class Exponential(_PaperKernel):
    """Eq. kernel_exp of the paper: r * exp(-k * i), with k bounded so that the last layer keeps at least r_min.

    The raw slope sets how far the last layer falls between r and r_min; k follows from it. Nothing is clipped.
    """

    name: ClassVar[str] = "exponential"

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


@dataclass(frozen=True, kw_only=True)
class MultiStep(_PaperKernel):
    """Eq. kernel_ms of the paper: M equal steps, the j-th at layer (2j - 1) L / (2M); k > 0 is their steepness."""

    name: ClassVar[str] = "multi-step"

    steps: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.steps < 1:
            raise InvalidInputError(f"steps={self.steps} was given to kernel {self.name!r}. Give 1 or more.")

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
