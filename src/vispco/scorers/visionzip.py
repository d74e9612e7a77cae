"""VisionZip: the tokens that the vision tower itself looks at, and a few that stand for the rest.

Yang et al., "VisionZip: Longer is Better but Not Necessary in Vision Language Models" (CVPR 2025). Dominant tokens: most
attention from the class token in the last block that the projector sees. Of the others every n-th is a target, and each
joins the target with the most similar key; a contextual token is its target plus the mean of those that joined it.
Faithful: both choices, the published shares (54 + 10 of 64), and the sum. After the paper: tokens are merged behind the
projector, not before it, at the place of their target; the class token is not kept; attention is the mean over all
patches in towers without a class token (SigLIP, Qwen), keys of Qwen's tower are rotated.
"""

import math

import torch

from vispco.core.errors import InvalidInputError
from vispco.cost.dimensions import Dimensions
from vispco.scorers.base import Merge, Scorer, Selection, VisionNeeds, register, top_tokens
from vispco.scorers.context import ScoringContext
from vispco.scorers.ranking import Tier, key_cosine_flops, nearest, select_by_tiers, share_of

_CONTEXTUAL = 10 / 64


@register
class VisionZip(Scorer):
    """Dominant and contextual tokens.

    contextual: the share of contextual tokens. merge: contextual tokens take up the rest; without, they are plain tokens.
    """

    name = "visionzip"
    needs_attention = False

    def __init__(self, *, contextual: float = _CONTEXTUAL, merge: bool = True) -> None:
        if not 0 <= contextual <= 1:
            raise InvalidInputError(f"contextual={contextual} was given to visionzip; it is a share between 0 and 1.")
        self.contextual, self.merge = contextual, merge
        self.merges, self.needs_vision = merge, VisionNeeds(attention=(-1,), keys=(-1,) if merge else ())

    def select(self, context: ScoringContext) -> Selection:
        live, attention = context.live, context.vision.attention[-1]
        contextual = share_of(context.counts, self.contextual)
        dominant = context.counts - contextual
        rest = live & ~top_tokens(attention, live, dominant)
        place, stride = rest.cumsum(-1) - 1, (rest.sum(-1) // contextual.clamp(min=1)).clamp(min=1)[:, None]
        target = rest & (place % stride == 0) & (place // stride < contextual[:, None])  # every n-th, from the first on
        chosen = select_by_tiers(live, context.counts, Tier(attention, limit=dominant), Tier(attention, target))
        if not self.merge:
            return chosen
        most = int(context.max_count * self.contextual + 1)
        into = torch.where(rest, nearest(context.vision.keys[-1], target, most), -1)
        joined = (rest & ~target & (into >= 0)).float()
        group = torch.zeros_like(joined).scatter_add(1, into.clamp(min=0), joined).gather(1, into.clamp(min=0))
        weight = torch.where(target, 1.0, 1 / group.clamp(min=1))
        return Selection(chosen.keep, chosen.scores, Merge(into, weight, normalise=False))

    def choice_flops(self, num_tokens: int, num_visual: int, dimensions: Dimensions) -> int:  # noqa: ARG002
        return key_cosine_flops(num_visual, dimensions) if self.merge else 0

    def flops_per_kept(self, num_visual: int, dimensions: Dimensions) -> int:
        """At most: how many tokens are contextual is rounded down."""
        percent = math.ceil(100 * self.contextual)
        return key_cosine_flops(num_visual, dimensions) * percent // 100 + 1 if self.merge else 0
