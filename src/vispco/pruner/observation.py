"""Observations: visual and instruction embeddings of samples, never their answers; and their features for a regression."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import normalize

from vispco.core.layout import TokenLayout

MAX_TEXT = 256  # of a longer instruction, the end is read
PICTURE, SIZE = 0.5, 0.3  # weights of the picture and of its size, relative to the instruction


@dataclass(frozen=True, eq=False)
class Observation:
    """A batch of samples as they enter the language model; float32, without gradients.

    visual: [B, 2 D], mean and standard deviation over the sample's visual tokens (0 where it has none).
    text: [B, T, D], the embeddings of its instruction tokens in order. present: bool [B, T], False for padding.
    sizes: int64 [B, 4], see `TokenLayout.prompt_sizes`; a budget's meaning depends on them.
    """

    visual: Tensor
    text: Tensor
    present: Tensor
    sizes: Tensor

    def __len__(self) -> int:
        return len(self.visual)

    def take(self, index: Tensor) -> Observation:
        return Observation(self.visual[index], self.text[index], self.present[index], self.sizes[index])

    def to(self, device: torch.device | str) -> Observation:
        return Observation(*(t.to(device) for t in (self.visual, self.text, self.present, self.sizes)))


def observe(layout: TokenLayout, embeddings: Tensor) -> Observation:
    """Read a batch off the embeddings [B, N, D] that enter the language model."""
    states = embeddings.detach().float()
    visual = layout.visual[..., None]
    count = layout.visual.sum(-1, keepdim=True).clamp_min(1)
    mean = (states * visual).sum(1) / count
    variance = ((states - mean[:, None]).square() * visual).sum(1) / count
    positions = torch.arange(layout.length, device=states.device)
    # the query is the last instruction token: what stands behind it is the answer, which a predictor must not see
    asked = layout.real & ~layout.visual & (positions <= layout.query[:, None])
    # asked tokens first, in order; then the rest
    order = torch.where(asked, positions, positions + layout.length).argsort(-1)
    numbers = asked.sum(-1)
    width = min(int(numbers.max()), MAX_TEXT)
    first = (numbers - width).clamp_min(0)[:, None]
    picked = order.gather(1, first + torch.arange(width, device=states.device))
    present = torch.arange(width, device=states.device) < numbers.clamp_max(width)[:, None]
    text = states.gather(1, picked[..., None].expand(-1, -1, states.shape[-1])) * present[..., None]
    sizes = layout.on_device(layout.prompt_sizes).to(states.device)
    return Observation(torch.cat([mean, variance.sqrt()], dim=-1), text, present, sizes)


def join_observations(observations: list[Observation]) -> Observation:
    """Several batches as one, their texts padded to the longest."""
    width = max(o.text.shape[1] for o in observations)

    def widened(values: Tensor) -> Tensor:
        room = values.new_zeros(values.shape[0], width, *values.shape[2:])
        room[:, : values.shape[1]] = values
        return room

    return Observation(
        torch.cat([o.visual for o in observations]),
        torch.cat([widened(o.text) for o in observations]),
        torch.cat([widened(o.present) for o in observations]),
        torch.cat([o.sizes for o in observations]),
    )


def raw_features(observation: Observation) -> Tensor:
    """Features [B, F = 3 D + 1] of each sample.

    They are the mean of the instruction's embeddings, mean and deviation of the picture's, and the logarithm of its size.
    """
    present = observation.present[..., None].float()
    words = (observation.text * present).sum(1) / present.sum(1).clamp_min(1)
    size = observation.sizes[:, 1:2].float().clamp_min(1).log()
    return torch.cat([words, observation.visual, size], dim=-1)


def feature_scales(raw: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation [F] of each feature over samples."""
    return raw.mean(0), raw.std(0, unbiased=False).clamp_min(1e-6)


def scaled_features(raw: Tensor, centre: Tensor, spread: Tensor) -> Tensor:
    """Standardised features [B, F] whose Euclidean distance is the dissimilarity: instruction and picture as directions."""
    scaled = (raw - centre) / spread
    D = (raw.shape[-1] - 1) // 3
    words, picture, size = scaled[:, :D], scaled[:, D:-1], scaled[:, -1:]
    return torch.cat([normalize(words, dim=-1), PICTURE * normalize(picture, dim=-1), SIZE * size], dim=-1)
