"""How something is trained by gradient: settings that the paper's tables do not fix, and random draws.

The draws are functions of a seed and a position, so a run that was killed resumes to the same numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


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


def batch_index(place: int, count: int, seed: int) -> int:
    """Which of `count` batches is used at step `place`; the order is shuffled again after each pass over all of them."""
    epoch, index = divmod(place, count)
    generator = torch.Generator().manual_seed(seed * 15_485_863 + epoch)
    return int(torch.randperm(count, generator=generator)[index])


def draw_budgets(place: int, floor: Tensor, seed: int) -> Tensor:
    """A budget for each sample, drawn afresh, uniform between its floor [B] and 1: [B], float64."""
    generator = torch.Generator().manual_seed(seed * 7_368_787 + place)
    return floor + (1.0 - floor) * torch.rand(len(floor), generator=generator, dtype=torch.float64)
