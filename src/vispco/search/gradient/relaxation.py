"""The paper's continuous relaxation: hard top-k in the forward pass, a sigmoid around a soft threshold in the backward.

    k~    = r N_v                                                        how many tokens stay, as a real number
    tau   = sum_j w_j s_j / sum_j w_j,   w_j = exp(-(j - k~)^2 / 2 sigma^2)     Eq. soft_threshold
    m~_j  = sigm((s_j - tau) / T)                                        Eq. masks
    m^_j  = m~_j + sg(m_j - m~_j)                                        Eq. ste

s_1 >= s_2 >= ... are the scores of the *live* visual tokens of one sample, as logarithms, standardised. At both ends the
Gaussian would lean on ranks that do not exist and pull tau inwards; there the sequence is continued by point reflection
(s_{1-d} = 2 s_1 - s_{1+d}), which is exact for scores that are linear in rank. So tau(1) = s_1, tau(n) = s_n, and
tau(0) lies above s_1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from vispco.core.errors import InvalidInputError
from vispco.core.layout import TokenLayout

_REACH = 4.0  # the Gaussian is summed over so many sigmas to each side
_FULL = 1.0 - 1e-9  # a retention from here on drops nothing
_FAINTEST = 1e-9  # scores below this share of the best one have no logarithm worth telling apart


def standardised(scores: Tensor, live: Tensor) -> Tensor:
    """Scores [B, V] -> mean 0 and deviation 1 over the live tokens of each sample, 0 elsewhere; float32.

    Where all of a sample's scores are at least 0 (attention is), their logarithm is taken first: attention spreads over
    orders of magnitude, and T = 0.1 says nothing about numbers near 1 / N.
    """
    scores = scores.detach().float()
    best = scores.masked_fill(~live, -torch.inf).amax(-1, keepdim=True)
    least = scores.masked_fill(~live, torch.inf).amin(-1, keepdim=True)
    logs = torch.maximum(scores, (best * _FAINTEST).clamp_min(1e-30)).log()
    values = torch.where(least >= 0, logs, scores).masked_fill(~live, 0.0)
    count = live.sum(-1, keepdim=True).clamp_min(1)
    centred = (values - values.sum(-1, keepdim=True) / count).masked_fill(~live, 0.0)
    deviation = (centred.square().sum(-1, keepdim=True) / count).sqrt()
    return centred / deviation.clamp_min(1e-6)


def soft_threshold(ordered: Tensor, count: Tensor, kept: Tensor, sigma: float) -> Tensor:
    """Eq. soft_threshold of the paper, with a gradient in `kept`: the score at the real-valued rank k~.

    ordered: [B, V] scores in descending order, the first `count` [B] of them live. kept: [B], k~ = r N_v. -> [B].
    The gradient is Eq. gradient_tau: d tau / d k~ = sum_j w_j (j - k~) (s_j - tau) / (sigma^2 sum_l w_l).
    """
    half = math.ceil(_REACH * sigma) + 1
    offset = torch.arange(-half, half + 1, device=ordered.device)
    rank = kept.detach().round().long()[:, None] + offset  # [B, W], j = 1 is the best
    distance = rank - kept[:, None]
    weight = (-distance.square() / (2.0 * sigma**2)).softmax(-1)  # w_j / sum_l w_l
    return (weight * _at_rank(ordered, count, rank)).sum(-1)


def _at_rank(ordered: Tensor, count: Tensor, rank: Tensor) -> Tensor:
    """s_j for any integer j [B, W]: inside 1..n the score, outside point-reflected at the end, again and again."""
    last = (count - 1).clamp_min(0)[:, None]  # n - 1
    period = (2 * last).clamp_min(1)
    place = (rank - 1) % period
    turns = (rank - 1).div(period, rounding_mode="floor")
    first, final = ordered[:, :1], ordered.gather(1, last)
    mirrored = place > last
    value = ordered.gather(1, torch.where(mirrored, 2 * last - place, place).clamp(0, ordered.shape[1] - 1))
    return torch.where(mirrored, 2 * final - value, value) + 2 * turns * (final - first)


@dataclass
class GaussianMask:
    """The engine's `Relaxation`: `keep` in value, the paper's straight-through gradient towards the retention.

    sigma: width of the Gaussian in ranks. temperature: T, in standard deviations of the log-scores.
    even: one token more in the budget is one more in the mask, however the scores lie (see `_even`). Else, as in the
    paper, it is many where tokens crowd around the threshold, and none where there is a gap.
    `begin(layout)` tells it how many visual tokens each sample had at first; a planner calls it before every pass.
    """

    sigma: float = 10.0
    temperature: float = 0.1
    even: bool = False

    def __post_init__(self) -> None:
        if not (self.sigma > 0 and self.temperature > 0):
            raise InvalidInputError(
                f"sigma={self.sigma}, temperature={self.temperature} were given. Both are above 0; to approach the hard "
                "threshold make them small."
            )
        self._num_visual: Tensor | None = None

    def begin(self, layout: TokenLayout) -> None:
        self._num_visual = torch.tensor(layout.num_visual, device=layout.visual.device)

    def __call__(self, scores: Tensor, live: Tensor, keep: Tensor, retention: Tensor) -> Tensor:
        """scores, live, keep [B, V], retention [B] -> mask [B, V], equal to `keep` to the bit."""
        if self._num_visual is None or len(self._num_visual) != len(live):
            raise InvalidInputError("Call begin(layout) of the relaxation before a pass: it needs the original N_v.")
        retention = retention.to(live.device)
        s = standardised(scores, live)
        ordered = s.masked_fill(~live, -torch.inf).sort(-1, descending=True).values
        count = live.sum(-1)
        ordered = ordered.masked_fill(torch.isinf(ordered), 0.0)
        kept = retention.float() * self._num_visual  # k~_i = r_i N_v
        tau = soft_threshold(ordered, count, kept, self.sigma)
        learns = live & (retention.detach() < _FULL)[:, None]
        if self.even:
            share = _even((s - tau.detach()[:, None]) / self.temperature, live)
            return keep.float() + torch.where(learns, share * (kept - kept.detach())[:, None], 0.0)
        soft = torch.sigmoid((s - tau[:, None]) / self.temperature)  # m~, Eq. masks
        # Eq. ste; keep + (m~ - sg(m~)) instead of m~ + sg(m - m~): the bracket is exactly 0, so the value is exactly m
        return keep.float() + torch.where(learns, soft - soft.detach(), 0.0)


def _even(distance: Tensor, live: Tensor) -> Tensor:
    """d m~ / d k~ [B, V] that sums to 1: the paper's m~ (1 - m~) over its sum.

    The paper's is m~ (1 - m~) / T times -d tau / d k~, which is the density of the scores around the threshold, once
    seen through T and once, inverted, through sigma. Where the two differ, as in a gap, so does their product from 1.
    """
    logs = functional.logsigmoid(distance) + functional.logsigmoid(-distance)
    return logs.masked_fill(~live, -torch.inf).softmax(-1).nan_to_num(0.0)
