"""How many visual tokens each sample keeps at each layer of one prefill: what the engine carries out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from vispco.errors import InvalidInputError
from vispco.layout import TokenLayout
from vispco.scorers.chain import Chain


@dataclass(frozen=True, eq=False)
class TokenPlan:
    """Token counts int64 [B, L] on the host, never growing with depth; an upper bound for methods with a threshold.

    retention: [B, L] the same as fractions, with a gradient, where a search wants one.
    """

    counts: Tensor
    retention: Tensor | None = None
    rows: list[list[int]] = field(init=False)

    def __post_init__(self) -> None:
        if self.counts.device.type != "cpu":
            raise InvalidInputError("A plan's counts must be on the host, so that no layer has to wait for a device.")
        if bool((self.counts.diff(dim=-1) > 0).any()):
            raise InvalidInputError("A plan's counts grow with depth; a dropped token cannot come back.")
        object.__setattr__(self, "rows", self.counts.tolist())

    def at(self, layer: int) -> list[int]:
        """The count of each sample at a layer."""
        return [row[layer] for row in self.rows]


Planner = Callable[[TokenLayout, Tensor], TokenPlan]
"""(layout, embeddings [B, N, D] that enter the language model) -> plan. A fixed schedule, or a trained predictor."""


def check_plan(plan: TokenPlan, layout: TokenLayout, num_layers: int, chain: Chain) -> None:
    """Refuse a plan that does not fit the batch or the chain of scorers, before any layer has run."""
    expected = (layout.batch_size, num_layers)
    if tuple(plan.counts.shape) != expected:
        raise InvalidInputError(
            f"The schedule is for {tuple(plan.counts.shape)} (samples, layers), but the batch and the model have "
            f"{expected}. Make it with num_layers={num_layers} and one row per sample, or one row for all."
        )
    visual = torch.tensor(layout.num_visual)
    if bool((plan.counts > visual[:, None]).any()) or bool((plan.counts < 0).any()):
        raise InvalidInputError("The plan keeps more visual tokens than a sample has, or fewer than none.")
    first = chain.earliest_layer
    if bool((plan.counts[:, :first] != visual[:, None]).any()):
        kept = "r_0 = 1" if first == 1 else f"r_0 .. r_{first - 1} = 1"
        raise InvalidInputError(
            f"The schedule prunes before layer {first}, but the scorer {chain.name!r} is in charge from layer {first} on. "
            f"Keep all tokens until then ({kept}), or begin the chain with a scorer that reads no attention of the layer "
            "before, such as 'random'."
        )
