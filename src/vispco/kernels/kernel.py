"""Kernel: a differentiable function from a few unconstrained parameters to one retention per layer."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from vispco.core.errors import InvalidInputError

# `initial` keeps its numbers this far inside their open ranges: nearer, a sigmoid's gradient is too small to learn from.
MARGIN = 1e-6


@dataclass(frozen=True, kw_only=True)
class Kernel(ABC):
    """Maps unconstrained parameters [..., P] to retentions [..., L]: non-increasing, in [r_min, 1], smooth everywhere.

    A kernel has options but no state, so it may be shared, hashed and compared. Layers are i = 0..L-1.

    r_min: the least retention that the kernel may reach (0 is allowed).
    earliest_layer: the first layer that may be pruned; the layers before it keep 1. It follows from the scorer: one that
        reads attention prunes from layer 1 on, one that looks at embeddings or vision features from layer 0 on.
    """

    name: ClassVar[str]
    annealable: ClassVar[bool] = False  # whether `gamma` may be given per call
    budget_parameter: ClassVar[int] = 0  # raising this parameter never lowers any r_i: bisection on it meets a budget

    r_min: float = 0.0
    earliest_layer: int = 1

    def __post_init__(self) -> None:
        if not 0.0 <= self.r_min < 1.0:
            raise InvalidInputError(f"r_min={self.r_min} was given to kernel {self.name!r}. Give a number in [0, 1).")
        if self.earliest_layer < 0:
            raise InvalidInputError(
                f"earliest_layer={self.earliest_layer} was given to kernel {self.name!r}. Layers are counted from 0."
            )

    @abstractmethod
    def parameter_names(self, num_layers: int) -> tuple[str, ...]:
        """The names of the P parameters, in their order in `params`."""

    @abstractmethod
    def initial(self, num_layers: int) -> Tensor:
        """Parameters [P] (float64) from their human meaning, the inverse of `describe`; subclasses name the meaning."""

    @abstractmethod
    def describe(self, params: Tensor, num_layers: int) -> dict[str, float]:
        """The human meaning of one set of parameters [P]."""

    @abstractmethod
    def _curve(self, params: Tensor, depth: Tensor, gamma: float | None) -> Tensor:
        """The kernel's equation: params [..., P], depth i = 0..L-1 as [L] -> retention [..., L]."""

    def num_parameters(self, num_layers: int) -> int:
        return len(self.parameter_names(num_layers))

    def config(self) -> dict[str, Any]:
        """The kernel as plain data: `get(**config)` gives it back."""
        return {"name": self.name, **asdict(self)}

    def __call__(self, params: Tensor, num_layers: int, *, gamma: float | None = None) -> Tensor:
        """Params [..., P] unconstrained reals -> retention [..., L] in the dtype of params (float32 at least).

        gamma: another sharpness for this call, for annealing; `math.inf` gives the hard step that is deployed.
        """
        self._check(params, num_layers, gamma)
        if params.dtype in (torch.float16, torch.bfloat16):
            params = params.float()
        depth = torch.arange(num_layers, dtype=params.dtype, device=params.device)
        # Raw [..., L] is monotone and in range up to rounding; make it so exactly, and leave its gradient as it is.
        raw = self._curve(params, depth, gamma)
        value = raw.detach()
        exact = value.clamp(self.r_min, 1.0).cummin(dim=-1).values
        retention = raw + (exact - value)  # which is 0 or a rounding error, so the sum is `exact` to the last bit
        first = self.earliest_layer
        if not first:
            return retention
        return torch.cat([torch.ones_like(retention[..., :first]), retention[..., first:]], dim=-1)

    def _check(self, params: Tensor, num_layers: int, gamma: float | None) -> None:
        if num_layers < 2:
            raise InvalidInputError(f"Kernel {self.name!r} was asked for {num_layers} layers. It needs at least 2.")
        if self.earliest_layer >= num_layers:
            raise InvalidInputError(
                f"Kernel {self.name!r} may prune from layer {self.earliest_layer} on, and was asked for {num_layers} layers. "
                "Give it an earlier layer."
            )
        expected = self.num_parameters(num_layers)
        if not params.is_floating_point() or params.ndim < 1 or params.shape[-1] != expected:
            raise InvalidInputError(
                f"Kernel {self.name!r} was given parameters of shape {tuple(params.shape)} and type {params.dtype}. "
                f"For {num_layers} layers it takes floating-point [..., {expected}]: "
                f"{', '.join(self.parameter_names(num_layers))}."
            )
        if gamma is not None and not (self.annealable and gamma > 0.0):
            raise InvalidInputError(
                f"gamma={gamma} was given in a call of kernel {self.name!r}. "
                + ("Give a number above 0." if self.annealable else "Its sharpness is not annealed: leave gamma out.")
            )

    def _within(self, meaning: str, value: float, low: float, high: float) -> float:
        """The share of `value` in (low, high), kept off the ends by MARGIN; an error when it is outside."""
        if not low <= value <= high:
            raise InvalidInputError(
                f"{meaning}={value:g} was given to kernel {self.name!r}. Give a number in [{low:g}, {high:g}]."
            )
        return min(max((value - low) / (high - low), MARGIN), 1.0 - MARGIN)

    def _falling(self, meaning: str, values: Sequence[float]) -> Tensor:
        """Each value as the share of the room between r_min and the one before that it keeps, unbounded: float64 [P]."""
        above, raw = 1.0, []
        for value in values:
            raw.append(logit(self._within(meaning, value, self.r_min, above)) if above > self.r_min else 0.0)
            above = value
        return torch.tensor(raw, dtype=torch.float64)

    def _retention(self, unbounded: Tensor) -> Tensor:
        """An unconstrained number -> a retention in (r_min, 1)."""
        return self.r_min + (1.0 - self.r_min) * torch.sigmoid(unbounded)


def logit(share: float) -> float:
    """The inverse of the sigmoid."""
    return math.log(share) - math.log1p(-share)


def transition(distance: Tensor, gamma: float) -> Tensor:
    """sigm(gamma * distance); for gamma = inf the step that is 1 from distance 0 on, which has no gradient."""
    if math.isinf(gamma):
        return (distance >= 0).to(distance.dtype)
    return torch.sigmoid(gamma * distance)
