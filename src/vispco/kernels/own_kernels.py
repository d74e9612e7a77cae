"""Our kernels: steps with learned positions and heights (`steps`), and any non-increasing curve (`free`)."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from vispco.core.errors import InvalidInputError
from vispco.kernels.kernel import MARGIN, Kernel, transition


@dataclass(frozen=True, kw_only=True)
class Steps(Kernel):
    """1 - sum_j (h_{j-1} - h_j) * sigm(gamma * (i - k_j)): retention h_j behind the j-th step at k_j.

    Positions are the cumulative sum of a softmax over the M + 1 gaps in (-1, L), heights a product of sigmoids: both are
    sorted by construction, for every value of the parameters. `single` is the case M = 1.
    """

    name: ClassVar[str] = "steps"
    annealable: ClassVar[bool] = True

    steps: int = 3
    gamma: float = 10.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.steps < 1 or not self.gamma > 0.0:
            raise InvalidInputError(
                f"steps={self.steps}, gamma={self.gamma} were given to kernel {self.name!r}. "
                "Give at least 1 step and a gamma above 0."
            )

    def parameter_names(self, num_layers: int) -> tuple[str, ...]:  # noqa: ARG002
        numbers = range(1, self.steps + 1)
        return (*(f"height_{j}" for j in numbers), *(f"gap_{j}" for j in numbers))

    def initial(
        self, num_layers: int, *, positions: Sequence[float] | None = None, heights: Sequence[float] | None = None
    ) -> Tensor:
        """Parameters [2M] for steps centred at `positions` (in layers) with the retentions `heights` behind them."""
        M = self.steps
        if positions is None:
            positions = [(2 * j - 1) * num_layers / (2 * M) for j in range(1, M + 1)]
        if heights is None:
            heights = [self.r_min + (1.0 - self.r_min) * (1.0 - j / (M + 1)) for j in range(1, M + 1)]
        if len(positions) != M or len(heights) != M:
            raise InvalidInputError(
                f"{len(positions)} positions and {len(heights)} heights were given to kernel {self.name!r}, "
                f"which has {M} steps. Give {M} of each, or another `steps`."
            )
        edges = [-1.0, *positions, float(num_layers)]
        gaps = torch.tensor([after - before for before, after in pairwise(edges)], dtype=torch.float64)
        if bool((gaps < 0).any()):
            raise InvalidInputError(
                f"positions={list(positions)} were given. They must grow, within [-1, {num_layers}]."
            )
        log_gaps = gaps.clamp_min(MARGIN * num_layers).log()
        return torch.cat([self._falling("height", heights), log_gaps[:-1] - log_gaps[-1]])

    def describe(self, params: Tensor, num_layers: int) -> dict[str, float]:
        """Position (in layers) and height (the retention behind it) of each step."""
        heights, positions = self._heights(params).tolist(), self._positions(params, num_layers).tolist()
        return {
            f"{what}_{j}": float(values[j - 1])
            for j in range(1, self.steps + 1)
            for what, values in (("position", positions), ("height", heights))
        }

    def _heights(self, params: Tensor) -> Tensor:
        """h_1..h_M: [..., M]."""
        kept = functional.logsigmoid(params[..., : self.steps]).cumsum(dim=-1).exp()
        return self.r_min + (1.0 - self.r_min) * kept

    def _positions(self, params: Tensor, num_layers: int) -> Tensor:
        """k_1..k_M: [..., M]; the last gap's logit is fixed at 0."""
        gaps = params[..., self.steps :]
        shares = torch.cat([gaps, torch.zeros_like(gaps[..., :1])], dim=-1).softmax(dim=-1)
        return -1.0 + (num_layers + 1.0) * shares[..., :-1].cumsum(dim=-1)

    def _curve(self, params: Tensor, depth: Tensor, gamma: float | None) -> Tensor:
        heights = self._heights(params)
        drops = torch.cat([torch.ones_like(heights[..., :1]), heights[..., :-1]], dim=-1) - heights  # [..., M]
        distance = depth[:, None] - self._positions(params, depth.numel())[..., None, :]  # [..., L, M]
        return 1.0 - (drops[..., None, :] * transition(distance, self.gamma if gamma is None else gamma)).sum(dim=-1)


@dataclass(frozen=True, kw_only=True)
class Free(Kernel):
    """r_i = r_min + (1 - r_min) * prod_{j <= i} sigm(u_j): each layer keeps a learned share of what came before.

    Every strictly decreasing curve in (r_min, 1) is reached by exactly one set of parameters, a plateau in the limit.
    There is one parameter for each layer from `earliest_layer` on.
    """

    name: ClassVar[str] = "free"

    def parameter_names(self, num_layers: int) -> tuple[str, ...]:
        return tuple(f"share_{i}" for i in range(self.earliest_layer, num_layers))

    def initial(self, num_layers: int, *, retention: Sequence[float] | None = None) -> Tensor:
        """Parameters [P] for the curve `retention` (r_0..r_{L-1}; default: linear from 1 to half-way to r_min)."""
        if retention is None:
            fall = 0.5 * (1.0 - self.r_min) / max(num_layers - 1, 1)
            retention = [1.0 - fall * i for i in range(num_layers)]
        if len(retention) != num_layers:
            raise InvalidInputError(f"{len(retention)} retentions were given for {num_layers} layers. Give one each.")
        return self._falling("retention", retention[self.earliest_layer :])

    def describe(self, params: Tensor, num_layers: int) -> dict[str, float]:
        """The retention of each layer."""
        return {f"r_{i}": r for i, r in enumerate(self(params, num_layers).tolist())}

    def _curve(self, params: Tensor, depth: Tensor, gamma: float | None) -> Tensor:  # noqa: ARG002
        kept = functional.logsigmoid(params).cumsum(dim=-1).exp()
        if self.earliest_layer:
            kept = torch.cat([kept.new_ones(*kept.shape[:-1], self.earliest_layer), kept], dim=-1)
        return self.r_min + (1.0 - self.r_min) * kept
