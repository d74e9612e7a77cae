"""All tokens before one layer, a share of them from it on; sharp (`single`) or gentle (`p-sigmoid`)."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from vispco.core.errors import InvalidInputError
from vispco.kernels.kernel import Kernel, logit, transition


@dataclass(frozen=True, kw_only=True)
class Single(Kernel):
    """Eq. kernel_single of the paper: 1 + (r - 1) * sigm(gamma * (i - k)), with k in (-1, L) and r in (r_min, 1).

    At gamma = 10 a layer whose distance to k is 1 misses its plateau by 5e-5 of the tokens, which rounds away in whole
    tokens, but one at distance 1/2 by 0.7 %, which does not: deploy with gamma = inf, where layers i >= k keep r.
    """

    name: ClassVar[str] = "single"
    annealable: ClassVar[bool] = True
    budget_parameter: ClassVar[int] = 1

    gamma: float = 10.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.gamma > 0.0:
            raise InvalidInputError(f"gamma={self.gamma} was given to kernel {self.name!r}. Give a number above 0.")

    def parameter_names(self, num_layers: int) -> tuple[str, ...]:  # noqa: ARG002
        return ("k", "r")

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
