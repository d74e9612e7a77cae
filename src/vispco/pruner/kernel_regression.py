"""Nadaraya-Watson regression of each configuration's loss on the principal components of the samples' features.

`KernelRegression` holds the calibration samples and is saved with a predictor. `BatchRegression` computes the same estimate
for a batch that the engine sees, in few operations: all that does not depend on a sample is computed beforehand.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from vispco.core.layout import Array, TokenLayout
from vispco.core.small_arrays import Numbers, as_numbers, is_on_host
from vispco.pruner.observation import (
    MAX_TEXT,
    PICTURE,
    SIZE,
    Observation,
    feature_scales,
    raw_features,
    scaled_features,
)

NUM_COMPONENTS = 64  # principal components of a sample's features
SMALL = 1 << 20  # numbers on the host that numpy pools; for more, its threads and torch's are in each other's way
_SMALLEST = 1e-24  # of a squared length, as torch's `normalize` has it


def saturating_loss(kl: Tensor) -> Tensor:
    """A loss in [0, 1) that is the KL where that is small: an answer that is lost cannot be lost more.

    A mean of KL is ruled by the few samples that are lost altogether, and money spent on them changes no answer.
    """
    return -torch.expm1(-kl)


def kernel_weights(points: Tensor, others: Tensor, bandwidth: Tensor | float, *, leave_one_out: bool = False) -> Tensor:
    """Gaussian kernel weights [B, M] of other points for each point, exp(-d^2 / (2 bandwidth)), normalised over rows.

    leave_one_out: `others` are the same points, and a point has no weight for itself.
    """
    near = -torch.cdist(points, others).square() / (2.0 * bandwidth)
    if leave_one_out and len(near) > 1:
        near.fill_diagonal_(-torch.inf)
    return near.softmax(-1)


class KernelRegression(nn.Module):
    """M samples by Q principal components of their F features, and the loss of K configurations on them.

    All of it is buffers, saved with the predictor.
    """

    centre: Tensor  # [F]
    spread: Tensor  # [F]
    axes: Tensor  # [F, Q], the principal axes
    keys: Tensor  # [M, Q], the samples on them
    kl: Tensor  # [M, K], the loss
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

    def estimate(self, observation: Observation | None = None) -> Tensor:
        """The estimated loss of each configuration, each with its own bandwidth: [B, K].

        Without an observation: of the M samples themselves, each from the others (leave-one-out).
        """
        keys = self.keys
        if observation is not None:
            keys = scaled_features(raw_features(observation).to(self.centre), self.centre, self.spread) @ self.axes
        found = torch.empty(len(keys), self.kl.shape[1], device=keys.device)
        for bandwidth in torch.unique(self.bandwidth):
            columns = (self.bandwidth == bandwidth).nonzero()[:, 0]
            weights = kernel_weights(keys, self.keys, bandwidth, leave_one_out=observation is None)
            found[:, columns] = weights @ self.kl[:, columns]
        return found

    @torch.no_grad()
    def fit(
        self,
        observation: Observation,
        kl: Tensor,
        bandwidth: Tensor,
        transform: Callable[[Tensor], Tensor] = lambda points: points,
    ) -> None:
        """Store samples and their loss kl [M, K], by the leading principal components of their features.

        transform: of the features [M, F] before the principal axes are computed.
        """
        raw = raw_features(observation)
        centre, spread = feature_scales(raw)
        points = transform(scaled_features(raw, centre, spread))
        axes = torch.linalg.svd(points - points.mean(0), full_matrices=False).Vh[: self.axes.shape[1]].T
        self.centre.copy_(centre)
        self.spread.copy_(spread)
        self.axes.zero_()
        self.axes[:, : axes.shape[1]] = axes
        self.keys.copy_(points @ self.axes.to(points))
        self.kl.copy_(kl)
        self.bandwidth.copy_(bandwidth)


class BatchRegression:
    """`KernelRegression.estimate` of `observe(layout, embeddings)`, for the engine."""

    def __init__(self, regression: KernelRegression) -> None:
        self.regression = regression
        self.bandwidths, self.which = np.unique(regression.bandwidth.cpu().numpy(), return_inverse=True)
        self._tables: dict[tuple[torch.device, bool], tuple[Numbers, ...]] = {}
        self._tables_on(regression.keys.device)

    def estimate(self, layout: TokenLayout, embeddings: Tensor) -> Array:
        """The loss of each configuration: float32 [B, K] on the host. embeddings: [B, N, D], what enters the language model."""
        centre, scale, axes, parts, keys, lengths, kl, sharpness = self._tables_on(embeddings.device)
        scaled = (batch_features(layout, embeddings) - centre) * scale
        projected, width = scaled @ axes, keys.shape[0]  # of words, picture and size apart: [B, 3 Q]
        words, picture, size = (projected[:, at : at + width] for at in range(0, 3 * width, width))
        inverse = ((scaled * scaled) @ parts).clip(_SMALLEST) ** -0.5  # [B, 2]
        if isinstance(scaled, Tensor):
            points = torch.addcmul(torch.addcmul(size, words, inverse[:, :1]), picture, inverse[:, 1:])  # [B, Q]
            # -|x - y|^2 / 2, without |x|^2, which is the same for all y
            near = torch.addmm(lengths, points, keys)
            found = ((near * sharpness).softmax(-1) @ kl).cpu().numpy()
        else:
            points = size + words * inverse[:, :1] + picture * inverse[:, 1:]
            near = (points @ keys + lengths) * sharpness
            grown = np.exp(near - near.max(axis=-1, keepdims=True))
            found = grown / grown.sum(axis=-1, keepdims=True) @ kl
        # found: the loss under each of the W bandwidths, [W, B, K]
        own: Array = found[0] if len(found) == 1 else found[self.which, :, np.arange(len(self.which))].T
        return own

    def flops(self, sizes: Array) -> Array:
        """FLOPs of an estimate for samples [B, 2 or more] with these numbers of text and visual tokens: int64 [B]."""
        described, axes = self.regression.axes.shape
        width, known = (described - 1) // 3, len(self.regression.keys)
        pooled = 2 * 3 * width * sizes[:, :2].sum(axis=1)  # the means of words and picture, and the picture's spread
        compared = 2 * described * (3 * axes + 2) + 2 * known * (axes + len(self.bandwidths) * len(self.which))
        return np.asarray(pooled + compared, dtype=np.int64)

    @torch.no_grad()
    def _tables_on(self, device: torch.device) -> tuple[Numbers, ...]:
        """Arrays that do not depend on the input: centre and scale [F], axes [F, 3 Q] for words, picture and size apart, parts
        [F, 2] (which number belongs to words, and which to the picture), keys [Q, M], minus half of their squared lengths [M],
        kl [M, K], and one over each bandwidth [W, 1, 1].
        """
        key, fitted = (device, is_on_host(device)), self.regression
        if key in self._tables:
            return self._tables[key]
        with torch.inference_mode(mode=False):
            axes, keys = fitted.axes.cpu(), fitted.keys.cpu()
            count = (len(axes) - 1) // 3
            weights = torch.zeros(3, *axes.shape)
            weights[0, :count] = axes[:count]
            weights[1, count:-1] = PICTURE * axes[count:-1]
            weights[2, -1:] = SIZE * axes[-1:]
            parts = torch.zeros(len(axes), 2)
            parts[:count, 0], parts[count:-1, 1] = 1.0, 1.0
            made = (
                fitted.centre.cpu(),
                1.0 / fitted.spread.cpu(),
                torch.cat(list(weights), dim=1),
                parts,
                keys.T,
                keys.square().sum(-1) / -2.0,
                fitted.kl.cpu(),
                torch.from_numpy((1.0 / self.bandwidths).astype(np.float32))[:, None, None],
            )
            self._tables = {key: tuple(as_numbers(each.contiguous().to(device)) for each in made)}
        return self._tables[key]


def batch_features(layout: TokenLayout, embeddings: Tensor) -> Numbers:
    """`sample_features.raw_features` of `observe(layout, embeddings)`, in few operations: float32 [B, 3 D + 1]."""
    words, counts = layout.prompt_map, np.array([layout.num_prompt, layout.num_visual]).T
    if max(layout.num_prompt) > MAX_TEXT:  # the last ones speak
        words = words & (words[:, ::-1].cumsum(axis=1)[:, ::-1] <= MAX_TEXT)
        counts[:, 0] = counts[:, 0].clip(max=MAX_TEXT)
    maps, numbers = np.stack([words, layout.visual_map], axis=1), counts[..., None].clip(1)  # [B, 2, N], [B, 2, 1]
    states: Numbers = embeddings.detach().float()
    means: Numbers = (maps / numbers).astype(np.float32)
    size: Numbers = np.log(numbers[:, 1]).astype(np.float32)
    on_host = is_on_host(states.device)
    if not on_host or states.numel() > SMALL:
        means, size = (layout.on_device(each).to(states.device) for each in (means, size))
        pooled = torch.bmm(means, states)  # [B, 2, D]: words, picture
        spread = torch.bmm(means[:, 1:], (states - pooled[:, 1:]).square()).sqrt()
        found = torch.cat([pooled.flatten(1), spread.flatten(1), size], dim=-1)
        return found.numpy() if on_host else found
    states = as_numbers(states)
    pooled = means @ states
    spread = np.sqrt(means[:, 1:] @ np.square(states - pooled[:, 1:]))
    return np.concatenate([pooled.reshape(len(pooled), -1), spread[:, 0], size], axis=-1)
