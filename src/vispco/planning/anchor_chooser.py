"""A predictor's choice among its anchors at one budget, with all that does not depend on a sample computed beforehand."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from vispco.layout import Array, TokenLayout
from vispco.planning.observation import MAX_TEXT
from vispco.planning.predictor import Predictor
from vispco.planning.similarity import PICTURE, SIZE

SMALLEST = 1e-24  # of a squared length, as torch's `normalize` has it


@dataclass(frozen=True, eq=False)
class _Tables:
    """What is the same for every sample; F numbers describe one, Q is the number of axes, M of remembered samples.

    centre, scale: [F]. axes: [F, 3 Q], for words, picture and size apart. parts: [F, 2], which number belongs to words and
    which to the picture. keys: [Q, M] over the bandwidth; lengths: [M], minus half of their squares over it. kl: [M, K].
    """

    centre: Tensor
    scale: Tensor
    axes: Tensor
    parts: Tensor
    keys: Tensor
    lengths: Tensor
    kl: Tensor


class AnchorChooser:
    """For a predictor that remembers samples and adds no offset to the anchor that it chooses (see `of`)."""

    def __init__(self, predictor: Predictor, budget: float) -> None:
        self.predictor = predictor
        self.params = predictor.anchors.detach().double().cpu()  # [K, P]
        low, high = predictor.budget_range.detach().cpu().numpy().T
        number = np.float32(budget)
        self.in_range = np.flatnonzero((low <= number) & (number < high))
        self._tables = self._make(predictor.anchors.device)

    @classmethod
    def of(cls, predictor: Predictor, budget: float) -> AnchorChooser | None:
        """None for a predictor that chooses in another way, or may move its anchors."""
        moves = bool(predictor.offset.weight.any()) or bool(predictor.offset.bias.any())
        return None if moves or predictor.memory is None else cls(predictor, budget)

    def __call__(self, layout: TokenLayout, embeddings: Tensor) -> Array:
        """The anchor of each sample: int64 [B], on the host. embeddings: [B, N, D], what enters the language model."""
        if len(self.in_range) < 2:
            return np.full(layout.batch_size, self.in_range[0] if len(self.in_range) else 0)
        tables = self._on(embeddings.device)
        raw = describe_batch(layout, embeddings.detach())
        scaled = (raw - tables.centre) * tables.scale
        words, picture, size = (scaled @ tables.axes).chunk(3, dim=-1)
        inverse = (scaled.square() @ tables.parts).clamp_min(SMALLEST).rsqrt()  # [B, 2]
        points = torch.addcmul(torch.addcmul(size, words, inverse[:, :1]), picture, inverse[:, 1:])  # [B, Q]
        # -|x - y|^2 / (2 bandwidth), without |x|^2, which is the same for all y
        near = torch.addmm(tables.lengths, points, tables.keys).softmax(-1)
        best: Array = (near @ tables.kl).argmin(-1).cpu().numpy()
        return self.in_range[best]

    def _on(self, device: torch.device) -> _Tables:
        if self._tables.centre.device != device:
            self._tables = self._make(device)
        return self._tables

    @torch.no_grad()
    def _make(self, device: torch.device) -> _Tables:
        memory = self.predictor.memory
        assert memory is not None  # noqa: S101 - `of` has asked
        with torch.inference_mode(mode=False):
            index = torch.from_numpy(self.in_range)
            bandwidth = memory.bandwidth.cpu()[index].amin().clamp_max(1e6) if len(index) else torch.ones(())
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
                keys.T / bandwidth,
                keys.square().sum(-1) / (-2.0 * bandwidth),
                memory.kl.cpu()[:, index],
            )
            return _Tables(*(each.contiguous().to(device) for each in made))


def describe_batch(layout: TokenLayout, embeddings: Tensor) -> Tensor:
    """What `similarity.describe` says of `observe(layout, embeddings)`, in a few operations: float32 [B, 3 D + 1]."""
    states = embeddings.float()
    behind = layout.prompt_map[:, ::-1].cumsum(axis=1)[:, ::-1]
    maps = np.stack([layout.prompt_map & (behind <= MAX_TEXT), layout.visual_map], axis=1)  # [B, 2, N]
    numbers = maps.sum(axis=2, keepdims=True).clip(1)
    means = layout.on_device((maps / numbers).astype(np.float32)).to(states.device)
    pooled = torch.bmm(means, states)  # [B, 2, D]: words, picture
    spread = torch.bmm(means[:, 1:], (states - pooled[:, 1:]).square()).sqrt()
    size = layout.on_device(np.log(numbers[:, 1]).astype(np.float32)).to(states.device)
    return torch.cat([pooled.flatten(1), spread.flatten(1), size], dim=-1)
