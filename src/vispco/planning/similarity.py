"""How like two samples are, by what a predictor sees of them: the instruction, the picture, its size."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize

from vispco.planning.observation import Observation

WARMTH = 0.15  # how far likeness reaches: two samples at a distance d speak for each other with exp(-d^2 / 2 warmth)
PICTURE, SIZE = 0.5, 0.3  # how much the picture and its size count beside the instruction


def described(observation: Observation) -> Tensor:
    """Mean of the instruction's embeddings, mean and deviation of the picture's, logarithm of its size: [B, 3 D + 1]."""
    present = observation.present[..., None].float()
    words = (observation.text * present).sum(1) / present.sum(1).clamp_min(1)
    size = observation.sizes[:, 1:].float().clamp_min(1).log()
    return torch.cat([words, observation.visual, size], dim=-1)


def scales(raw: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and deviation of each number of `described`, over samples."""
    return raw.mean(0), raw.std(0, unbiased=False).clamp_min(1e-6)


def placed(raw: Tensor, centre: Tensor, spread: Tensor) -> Tensor:
    """Samples as points, the instruction and the picture each as a direction: [B, 3 D + 1]."""
    scaled = (raw - centre) / spread
    D = (raw.shape[-1] - 1) // 3
    words, picture, size = scaled[:, :D], scaled[:, D:-1], scaled[:, -1:]
    return torch.cat([normalize(words, dim=-1), PICTURE * normalize(picture, dim=-1), SIZE * size], dim=-1)


def weights(points: Tensor, others: Tensor, warmth: Tensor | float = WARMTH, *, alone: bool = False) -> Tensor:
    """How much each of `others` says about each point: [B, M], rows sum to 1. alone: the same points, none for itself."""
    near = -torch.cdist(points, others).square() / (2.0 * warmth)
    if alone and len(near) > 1:
        near.fill_diagonal_(-torch.inf)
    return near.softmax(-1)


def alike(observation: Observation, warmth: float = WARMTH) -> Tensor:
    """How much each sample says about each *other* one: [M, M]."""
    raw = described(observation)
    points = placed(raw, *scales(raw))
    return weights(points, points, warmth, alone=True)
