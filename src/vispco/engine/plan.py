"""How many visual tokens each sample keeps at each layer of one prefill: what the engine carries out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from vispco.errors import InvalidInputError
from vispco.layout import TokenLayout


@dataclass(frozen=True, eq=False)
class Plan:
    """Token counts int64 [B, L] on the host, never growing with depth.

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


Planner = Callable[[TokenLayout, Tensor], Plan]
"""(layout, embeddings [B, N, D] that enter the language model) -> plan. A fixed schedule, or a trained predictor."""


def check_plan(plan: Plan, layout: TokenLayout, num_layers: int, *, first_full: bool) -> None:
    """Refuse a plan that does not fit the batch or the scorer, before any layer has run."""
    expected = (layout.batch_size, num_layers)
    if tuple(plan.counts.shape) != expected:
        raise InvalidInputError(
            f"The schedule is for {tuple(plan.counts.shape)} (samples, layers), but the batch and the model have "
            f"{expected}. Make it with num_layers={num_layers} and one row per sample, or one row for all."
        )
    visual = torch.tensor(layout.num_visual)
    if bool((plan.counts > visual[:, None]).any()) or bool((plan.counts < 0).any()):
        raise InvalidInputError("The plan keeps more visual tokens than a sample has, or fewer than none.")
    if first_full and bool((plan.counts[:, 0] != visual).any()):
        raise InvalidInputError(
            "The schedule prunes before layer 0, but this scorer reads the attention of the layer before, and there is "
            "none. Keep all tokens at layer 0 (r_0 = 1), or use a scorer that needs no attention."
        )
