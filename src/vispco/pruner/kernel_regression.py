"""What a predictor remembers: calibration samples, and the KL of each anchor on them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from vispco.pruner.observation import Observation
from vispco.pruner.sample_features import feature_scales, kernel_weights, raw_features, scaled_features

NUM_COMPONENTS = 64  # numbers by which a sample is remembered


def saturating_loss(kl: Tensor) -> Tensor:
    """A loss in [0, 1) that is the KL where that is small: an answer that is lost cannot be lost more.

    A mean of KL is ruled by the few samples that are lost altogether, and money spent on them changes no answer.
    """
    return -torch.expm1(-kl)


class KernelRegression(nn.Module):
    """Samples by their keys, and the KL of each anchor on them. All of it is buffers, saved with the predictor.

    F is the number of values that `raw_features` gives for a sample, Q the number of axes, M of samples, K of anchors.
    """

    centre: Tensor  # [F]
    spread: Tensor  # [F]
    axes: Tensor  # [F, Q]
    keys: Tensor  # [M, Q]
    kl: Tensor  # [M, K]
    bandwidth: Tensor  # [K]

    def __init__(self, hidden: int, samples: int, anchors: int, axes: int = NUM_COMPONENTS) -> None:
        super().__init__()
        F = 3 * hidden + 1
        self.register_buffer("centre", torch.zeros(F))
        self.register_buffer("spread", torch.ones(F))
        self.register_buffer("axes", torch.zeros(F, min(axes, F)))
        self.register_buffer("keys", torch.zeros(samples, min(axes, F)))
        self.register_buffer("kl", torch.zeros(samples, anchors))
        self.register_buffer("bandwidth", torch.full((anchors,), 1.0))

    def forward(self, observation: Observation, in_range: Tensor) -> Tensor:
        """The estimated KL of each anchor: [B, K]. in_range: bool [B, K]; the anchors of a row share their bandwidth."""
        keys = scaled_features(raw_features(observation).to(self.centre), self.centre, self.spread) @ self.axes
        bandwidth = torch.where(in_range, self.bandwidth, torch.inf).min(-1, keepdim=True).values.clamp_max(1e6)
        estimate: Tensor = kernel_weights(keys, self.keys, bandwidth) @ self.kl
        return estimate

    def estimate(self, observation: Observation) -> Tensor:
        """The estimated KL of each anchor, each with its own bandwidth: [B, K]."""
        keys = scaled_features(raw_features(observation).to(self.centre), self.centre, self.spread) @ self.axes
        found = torch.empty(len(keys), self.kl.shape[1], device=keys.device)
        for bandwidth in torch.unique(self.bandwidth):
            columns = (self.bandwidth == bandwidth).nonzero()[:, 0]
            found[:, columns] = kernel_weights(keys, self.keys, bandwidth) @ self.kl[:, columns]
        return found

    @torch.no_grad()
    def fit(
        self,
        observation: Observation,
        kl: Tensor,
        bandwidth: Tensor,
        features_of: Callable[[Tensor], Tensor] = lambda points: points,
    ) -> None:
        """Fill the memory with samples and their kl [M, K]. Keys are the samples' points on their leading axes.

        features_of: what takes the place of the points [M, F], where samples are to be known by something else.
        """
        raw = raw_features(observation)
        centre, spread = feature_scales(raw)
        points = features_of(scaled_features(raw, centre, spread))
        axes = torch.linalg.svd(points - points.mean(0), full_matrices=False).Vh[: self.axes.shape[1]].T
        self.centre.copy_(centre)
        self.spread.copy_(spread)
        self.axes.zero_()
        self.axes[:, : axes.shape[1]] = axes
        self.keys.copy_(points @ self.axes.to(points))
        self.kl.copy_(kl)
        self.bandwidth.copy_(bandwidth)
