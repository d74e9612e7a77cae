"""How a predictor is trained by gradient: the numbers that the paper's tables do not fix."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TrainingPlan:
    """How long and how fast. batches: per optimizer step, over all ranks. inner: steps between two multiplier moves."""

    steps: int = 200
    batches: int = 1
    inner: int = 10
    rate: float = 1e-4
    decay: float = 0.01
    clip: float = 1.0
    bins: int = 8
    gamma: tuple[float, float] = (1.0, 10.0)
    save_every: int = 20
    seed: int = 0
