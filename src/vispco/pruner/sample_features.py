"""How similar two samples are, by what a predictor sees of them: the instruction, the picture and its size."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize

from vispco.pruner.observation import Observation

BANDWIDTH = 0.15  # samples at a distance d have the weight exp(-d^2 / (2 bandwidth))
PICTURE, SIZE = 0.5, 0.3  # weights of the picture and of its size, relative to the instruction


def raw_features(observation: Observation) -> Tensor:
    """Each sample as raw numbers [B, 3 D + 1].

    They are the mean of the instruction's embeddings, mean and deviation of the picture's, and the logarithm of its size.
    """
    present = observation.present[..., None].float()
    words = (observation.text * present).sum(1) / present.sum(1).clamp_min(1)
    size = observation.sizes[:, 1:2].float().clamp_min(1).log()
    return torch.cat([words, observation.visual, size], dim=-1)


def feature_scales(raw: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and deviation of each number of `raw_features`, over samples."""
    return raw.mean(0), raw.std(0, unbiased=False).clamp_min(1e-6)


def scaled_features(raw: Tensor, centre: Tensor, spread: Tensor) -> Tensor:
    """Samples as points [B, 3 D + 1] whose distance is their dissimilarity; instruction and picture as directions."""
    scaled = (raw - centre) / spread
    D = (raw.shape[-1] - 1) // 3
    words, picture, size = scaled[:, :D], scaled[:, D:-1], scaled[:, -1:]
    return torch.cat([normalize(words, dim=-1), PICTURE * normalize(picture, dim=-1), SIZE * size], dim=-1)


def kernel_weights(
    points: Tensor, others: Tensor, bandwidth: Tensor | float = BANDWIDTH, *, leave_one_out: bool = False
) -> Tensor:
    """The weight of each of `others` for each point: [B, M], rows sum to 1.

    leave_one_out: `others` are the same points, and a point has no weight for itself.
    """
    near = -torch.cdist(points, others).square() / (2.0 * bandwidth)
    if leave_one_out and len(near) > 1:
        near.fill_diagonal_(-torch.inf)
    return near.softmax(-1)


def leave_one_out_weights(observation: Observation, bandwidth: float = BANDWIDTH) -> Tensor:
    """The weight of each sample for each *other* sample: [M, M]."""
    raw = raw_features(observation)
    points = scaled_features(raw, *feature_scales(raw))
    return kernel_weights(points, points, bandwidth, leave_one_out=True)
