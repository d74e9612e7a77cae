"""Any non-increasing curve (ours)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from vispco.core.errors import InvalidInputError
from vispco.kernels.kernel import Kernel, logit


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
        above, raw = 1.0, []
        for value in retention[self.earliest_layer :]:
            raw.append(logit(self._within("retention", value, self.r_min, above)) if above > self.r_min else 0.0)
            above = value
        return torch.tensor(raw, dtype=torch.float64)

    def describe(self, params: Tensor, num_layers: int) -> dict[str, float]:
        """The retention of each layer."""
        return {f"r_{i}": r for i, r in enumerate(self(params, num_layers).tolist())}

    def _curve(self, params: Tensor, depth: Tensor, gamma: float | None) -> Tensor:  # noqa: ARG002
        kept = functional.logsigmoid(params).cumsum(dim=-1).exp()
        if self.earliest_layer:
            kept = torch.cat([kept.new_ones(*kept.shape[:-1], self.earliest_layer), kept], dim=-1)
        return self.r_min + (1.0 - self.r_min) * kept
