"""VisPruner: tokens that the vision tower looks at, and of the others those that are unlike one another.

Zhang et al., "Beyond Text-Visual Attention: Exploiting Visual Cues for Effective Token Pruning in VLMs" (ICCV 2025). A
share of the tokens by attention from the class token. The others stand in a line by that attention; again and again
those at even places are compared with those at odd ones, and the eight that are most alike leave.
Faithful: both parts and the order of the line. After the paper: attention is the mean over all patches in towers without
a class token (SigLIP, Qwen); several pictures of a sample are one pool of tokens. The line is sorted again after each
comparison, so that rounding errors may lead to another set: the method is like that, not only this file.
"""

import torch
from torch import Tensor

from vispco.core.errors import InvalidInputError
from vispco.cost.dimensions import Dimensions
from vispco.scorers.base import Scorer, Selection, VisionNeeds, ranks, register, top_tokens
from vispco.scorers.context import ScoringContext
from vispco.scorers.greedy import feature_cosine_flops, feature_cosines
from vispco.scorers.ranking import Tier, select_by_tiers, share_of

_AT_ONCE = 8  # tokens that leave in one comparison


@register
class VisPruner(Scorer):
    """Important and diverse tokens. important_ratio: the share of those chosen by attention."""

    name = "vispruner"
    needs_attention = False
    needs_vision = VisionNeeds(features=True, attention=(-1,))

    def __init__(self, *, important_ratio: float = 0.5) -> None:
        if not 0 <= important_ratio <= 1:
            raise InvalidInputError(f"important_ratio={important_ratio} was given to vispruner; it is between 0 and 1.")
        self.important_ratio = important_ratio

    def select(self, context: ScoringContext) -> Selection:
        attention, counts = context.vision.attention[-1], context.counts
        important = share_of(counts, self.important_ratio)
        rest = context.live & ~top_tokens(attention, context.live, important)
        most = max(n - count for n, count in zip(context.layout.num_visual, context.host_counts, strict=True))
        rounds = most // _AT_ONCE + _AT_ONCE.bit_length() + 1  # fewer than eight leave only when fewer than 16 are left
        diverse = _unlike(rest, ranks(attention, rest), counts - important, feature_cosines(context), rounds)
        return select_by_tiers(context.live, counts, Tier(attention, limit=important), Tier(attention, diverse))

    def setup_flops(self, num_instruction: int, num_visual: int, dimensions: Dimensions) -> int:  # noqa: ARG002
        return feature_cosine_flops(num_visual, dimensions)


def _unlike(rest: Tensor, place: Tensor, wanted: Tensor, similar: Tensor, rounds: int) -> Tensor:
    """Which tokens are left when the most alike have gone: bool [B, V].

    rest: bool [B, V]; place: int64 [B, V], where each stands in line; wanted: int64 [B]; similar: [B, V, V].
    """
    rest = rest & (wanted > 0)[:, None]
    width, compared = rest.shape[1], torch.empty_like(similar)  # one buffer for all comparisons
    for _ in range(rounds):
        even, odd = rest & (place % 2 == 0), rest & (place % 2 == 1)
        alike = torch.add(similar, torch.where(odd, 0.0, -torch.inf)[:, None], out=compared).amax(-1)
        by_line = torch.where(even, place, width).argsort(-1)  # ties are broken by the place in line
        ahead = torch.empty_like(place).scatter_(1, by_line, ranks(alike.gather(1, by_line), even.gather(1, by_line)))
        leaving = (rest.sum(-1) - wanted).clamp(0, _AT_ONCE).minimum(even.sum(-1))[:, None]
        rest = rest & ~(even & (ahead < leaving))
        place = torch.where(even, ahead - leaving, even.sum(-1, keepdim=True) - leaving + place // 2)
    return rest
