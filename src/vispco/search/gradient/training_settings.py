"""How something is trained by gradient: settings that the paper's tables do not fix, and random draws.

The draws are functions of a seed and a position, so a run that was killed resumes to the same numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

PASSES = 4  # over the samples, where a training's length is not given
LEAST_STEPS = 128  # however few the samples
_DISTANCE = 0.128  # rate times steps: how far AdamW can move a weight
_HIGHEST_RATE = 1e-3  # four times as much drove every budget to full retention


@dataclass(frozen=True)
class LoopSettings:
    """How long and how fast. batches: per optimizer step, over all ranks. save_every: steps between checkpoints."""

    steps: int = 200
    batches: int = 1
    rate: float = 1e-4
    decay: float = 0.01
    clip: float = 1.0
    save_every: int = 20
    seed: int = 0


@dataclass(frozen=True)
class TrainingSettings(LoopSettings):
    """Of a predictor. inner: steps between two multiplier moves. bins: budgets that have a multiplier of their own."""

    inner: int = 10
    bins: int = 8
    gamma: tuple[float, float] = (1.0, 10.0)

    @classmethod
    def of_passes(
        cls, batches: int, rate: float, *, batches_per_step: int = 1, steps: int | None = None, seed: int = 0
    ) -> Self:
        """A few passes over batches, many over few. rate: of the paper, whose trainings are long; a short one gets a higher one.

        AdamW moves a weight by about its rate a step. Where that leads nowhere the budget is never met, and the multipliers
        grow until the constraint hides the KL.
        """
        steps = steps or max(LEAST_STEPS, PASSES * batches // batches_per_step)
        inner = max(2, steps // 16)
        own = max(rate, min(_DISTANCE / steps, _HIGHEST_RATE))
        return cls(steps=steps, rate=own, inner=inner, batches=batches_per_step, seed=seed)


def batch_index(place: int, count: int, seed: int) -> int:
    """Which of `count` batches is used at step `place`; the order is shuffled again after each pass over all of them."""
    epoch, index = divmod(place, count)
    generator = torch.Generator().manual_seed(seed * 15_485_863 + epoch)
    return int(torch.randperm(count, generator=generator)[index])


def draw_budgets(place: int, floor: Tensor, seed: int) -> Tensor:
    """A budget for each sample, drawn afresh, uniform between its floor [B] and 1: [B], float64."""
    generator = torch.Generator().manual_seed(seed * 7_368_787 + place)
    return floor + (1.0 - floor) * torch.rand(len(floor), generator=generator, dtype=torch.float64)
