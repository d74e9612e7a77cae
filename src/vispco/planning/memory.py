"""What a predictor remembers: calibration samples, and what each anchor cost them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from vispco.planning.observation import Observation
from vispco.planning.similarity import described, placed, scales, weights

AXES = 64  # numbers by which a sample is remembered


class Memory(nn.Module):
    """Samples by their keys, and what each anchor cost them. All of it is buffers: it is saved with the predictor."""

    centre: Tensor  # [F], as `described` gives samples
    spread: Tensor  # [F]
    axes: Tensor  # [F, Q]
    keys: Tensor  # [M, Q]
    told: Tensor  # [M, K]
    warmth: Tensor  # [K]

    def __init__(self, hidden: int, samples: int, anchors: int, axes: int = AXES) -> None:
        super().__init__()
        F = 3 * hidden + 1
        self.register_buffer("centre", torch.zeros(F))
        self.register_buffer("spread", torch.ones(F))
        self.register_buffer("axes", torch.zeros(F, min(axes, F)))
        self.register_buffer("keys", torch.zeros(samples, min(axes, F)))
        self.register_buffer("told", torch.zeros(samples, anchors))
        self.register_buffer("warmth", torch.full((anchors,), 1.0))

    def forward(self, observation: Observation, meant: Tensor) -> Tensor:
        """The KL to expect of each anchor: [B, K]. meant: bool [B, K], of which those of one row share their warmth."""
        found = placed(described(observation).to(self.centre), self.centre, self.spread) @ self.axes
        warmth = torch.where(meant, self.warmth, torch.inf).min(-1, keepdim=True).values.clamp_max(1e6)
        expected: Tensor = weights(found, self.keys, warmth) @ self.told
        return expected

    @torch.no_grad()
    def remember(self, observation: Observation, told: Tensor, warmth: Tensor) -> None:
        """Fill the memory: told [M, K]. Keys are the leading axes of where the samples lie."""
        raw = described(observation)
        centre, spread = scales(raw)
        points = placed(raw, centre, spread)
        axes = torch.linalg.svd(points - points.mean(0), full_matrices=False).Vh[: self.axes.shape[1]].T
        self.centre.copy_(centre)
        self.spread.copy_(spread)
        self.axes.zero_()
        self.axes[:, : axes.shape[1]] = axes
        self.keys.copy_(points @ self.axes.to(points))
        self.told.copy_(told)
        self.warmth.copy_(warmth)
