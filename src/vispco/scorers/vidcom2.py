"""VidCom2: of a video, the tokens that are unlike the whole of it and their frame; more of the frames that stand out.

Liu et al., "Video Compression Commander" (EMNLP 2025), as vLLM ships it. Of states as they entered the language model, the half
of the channels that vary least, normalised. A token's likeness to the video and to its frame is the sum of Gaussians of its
distance d to the mean there, exp(-d^2 / 2 alpha) for alpha = 1/8, ..., 2; the least alike stay. Of T frames one keeps the
share 1 + softmax(-mean likeness to the video / 0.01) - 1 / T of an even part.
Faithful: channels, likeness, shares of frames. After it: shares are divided into whole tokens by Webster's rule, so that every
count is met; several clips of a sample share the channels and have parts by size. A picture is a clip of one frame.
"""

import torch
from torch import Tensor
from torch.nn import functional

from vispco.scorers.base import Scorer, ranks, register
from vispco.scorers.context import ScoringContext
from vispco.scorers.grid import places_within

_ALPHAS = tuple(2.0**power for power in range(-3, 2))
_TEMPERATURE = 0.01


@register
class VidCom2(Scorer):
    """Unlike its video and its frame."""

    name = "vidcom2"
    needs_attention = False

    def score(self, context: ScoringContext) -> Tensor:
        """Minus where the seat of a token comes: the k-th best of a frame at (k + 1/2) / its part."""
        layout, live, weight = context.layout, context.live, context.live[..., None].double()
        image = layout.image_index
        frame, clip = layout.picture_index, (image.diff(dim=1, prepend=image[:, :1]) != 0).cumsum(-1)
        states = context.visual_embeddings().double() * weight
        number = weight.sum(1, keepdim=True).clamp(min=1)
        variance = ((states - states.sum(1, keepdim=True) / number) ** 2 * weight).sum(1)  # [B, D], times the number
        channels = variance.argsort(dim=-1, stable=True)[:, : (states.shape[2] + 1) // 2]
        unit = functional.normalize(states.gather(2, channels[:, None].expand(-1, states.shape[1], -1)), dim=-1)
        squares = [((unit - _mean(unit, group, weight)) ** 2).sum(-1) for group in (clip, frame)]
        to_clip, to_frame = (torch.stack([torch.exp(-each / (2 * a)) for a in _ALPHAS]).sum(0) for each in squares)
        likeness = _mean(to_clip[..., None], frame, weight)[..., 0]  # of the frame: [B, V]
        size = _sum(weight, frame)[..., 0].clamp(min=1)
        part = torch.exp(-likeness / _TEMPERATURE)  # likeness is at most 5, so that a double holds it
        parts, frames = _sum(torch.stack([part / size, 1 / size], dim=-1) * weight, clip).unbind(-1)
        share = size * (1 + part / parts - 1 / frames)
        place = places_within(ranks(-(to_clip + to_frame), live), frame, live)
        return -(place + 0.5) / share.clamp(min=1e-9)


def _sum(values: Tensor, group: Tensor) -> Tensor:
    """The sum over the group of each token: [B, V, D], int64 [B, V] -> [B, V, D]."""
    index = group[..., None].expand_as(values)
    return torch.zeros_like(values).scatter_add(1, index, values).gather(1, index)


def _mean(values: Tensor, group: Tensor, weight: Tensor) -> Tensor:
    """The same, the mean over the tokens with weight 1: weight [B, V, 1]."""
    return _sum(values * weight, group) / _sum(weight, group).clamp(min=1)
