"""Reads a predictor's memory for a batch, in a few operations: how near each remembered sample is, and the KL that follows.

It says what `KernelRegression` says of `observe(layout, embeddings)`. All that does not depend on a sample is computed beforehand.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from vispco.core.layout import Array, TokenLayout
from vispco.core.small_arrays import Numbers, as_numbers, is_on_host
from vispco.pruner.kernel_regression import KernelRegression
from vispco.pruner.observation import MAX_TEXT
from vispco.pruner.sample_features import PICTURE, SIZE

SMALL = 1 << 20  # numbers on the host that numpy pools; for more, its threads and torch's are in each other's way
SMALLEST = 1e-24  # of a squared length, as torch's `normalize` has it


@dataclass(frozen=True, eq=False)
class _Tables:
    """What is the same for every sample; F numbers describe one, Q is the number of axes, M of remembered samples.

    centre, scale: [F]. axes: [F, 3 Q], for words, picture and size apart. parts: [F, 2], which number belongs to words and
    which to the picture. keys: [Q, M]; lengths: [M], minus half of their squares. kl: [M, K]. sharpness: [W, 1, 1], one over
    each bandwidth.
    """

    centre: Numbers
    scale: Numbers
    axes: Numbers
    parts: Numbers
    keys: Numbers
    lengths: Numbers
    kl: Numbers
    sharpness: Numbers


class BatchRegression:
    """The estimated KL of anchors.

    columns: the anchors [n] that are asked about. bandwidth: [n], of each of them.
    """

    def __init__(self, memory: KernelRegression, columns: Array, bandwidth: Array) -> None:
        self.memory, self.columns = memory, columns
        self.bandwidths, self.which = np.unique(bandwidth, return_inverse=True)
        self._tables: dict[tuple[torch.device, bool], _Tables] = {}
        self._on(memory.keys.device)

    def __call__(self, layout: TokenLayout, embeddings: Tensor) -> Numbers:
        """The KL of the anchors under each bandwidth: [W, B, n]. embeddings: [B, N, D], what enters the language model."""
        tables, axes = self._on(embeddings.device), self.memory.axes.shape[1]
        scaled = (batch_features(layout, embeddings) - tables.centre) * tables.scale
        projected = scaled @ tables.axes  # of words, picture and size apart: [B, 3 Q]
        words, picture, size = (projected[:, at : at + axes] for at in range(0, 3 * axes, axes))
        inverse = ((scaled * scaled) @ tables.parts).clip(SMALLEST) ** -0.5  # [B, 2]
        if isinstance(scaled, Tensor):
            points = torch.addcmul(torch.addcmul(size, words, inverse[:, :1]), picture, inverse[:, 1:])  # [B, Q]
            # -|x - y|^2 / 2, without |x|^2, which is the same for all y
            near = torch.addmm(tables.lengths, points, tables.keys)
            return (near * tables.sharpness).softmax(-1) @ tables.kl
        points = size + words * inverse[:, :1] + picture * inverse[:, 1:]
        near = (points @ tables.keys + tables.lengths) * tables.sharpness
        grown = np.exp(near - near.max(axis=-1, keepdims=True))
        return grown / grown.sum(axis=-1, keepdims=True) @ tables.kl

    def estimate(self, layout: TokenLayout, embeddings: Tensor) -> Array:
        """The KL of each anchor, under its own bandwidth: float32 [B, n] on the host."""
        found = self(layout, embeddings)
        found = found.cpu().numpy() if isinstance(found, Tensor) else found
        own: Array = found[0] if len(found) == 1 else found[self.which, :, np.arange(len(self.columns))].T
        return own

    def flops(self, sizes: Array) -> Array:
        """FLOPs of an estimate for samples [B, 2 or more] of so many text and visual tokens: int64 [B]."""
        described, axes = self.memory.axes.shape
        width, known = (described - 1) // 3, len(self.memory.keys)
        pooled = 2 * 3 * width * sizes[:, :2].sum(axis=1)  # the means of words and picture, and the picture's spread
        compared = 2 * described * (3 * axes + 2) + 2 * known * (axes + len(self.bandwidths) * len(self.columns))
        return np.asarray(pooled + compared, dtype=np.int64)

    def _on(self, device: torch.device) -> _Tables:
        key = (device, is_on_host(device))
        if key not in self._tables:
            self._tables = {key: self._make(device)}
        return self._tables[key]

    @torch.no_grad()
    def _make(self, device: torch.device) -> _Tables:
        memory = self.memory
        with torch.inference_mode(mode=False):
            axes, keys = memory.axes.cpu(), memory.keys.cpu()
            count = (len(axes) - 1) // 3
            weights = torch.zeros(3, *axes.shape)
            weights[0, :count] = axes[:count]
            weights[1, count:-1] = PICTURE * axes[count:-1]
            weights[2, -1:] = SIZE * axes[-1:]
            parts = torch.zeros(len(axes), 2)
            parts[:count, 0], parts[count:-1, 1] = 1.0, 1.0
            made = (
                memory.centre.cpu(),
                1.0 / memory.spread.cpu(),
                torch.cat(list(weights), dim=1),
                parts,
                keys.T,
                keys.square().sum(-1) / -2.0,
                memory.kl.cpu()[:, torch.from_numpy(self.columns)],
                torch.from_numpy((1.0 / self.bandwidths).astype(np.float32))[:, None, None],
            )
            return _Tables(*(as_numbers(each.contiguous().to(device)) for each in made))


def batch_features(layout: TokenLayout, embeddings: Tensor) -> Numbers:
    """What `sample_features.raw_features` says of `observe(layout, embeddings)`, in a few operations: float32 [B, 3 D + 1]."""
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
