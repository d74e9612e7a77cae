"""PruMerge: the tokens that stick out in the vision tower's attention, each with what is most like it.

Shang et al., "LLaVA-PruMerge: Adaptive Token Reduction for Efficient Large Multimodal Models" (ICCV 2025). Kept are outliers of
the class token's attention, above the third quartile by 1.5 times the distance of the quartiles: their number is the
method's own, at most the schedule's. Other tokens are added to a kept one, weighted by their attention.
After the paper: attention is the mean over heads of the last block that the projector sees (all patches in towers without a
class token), and each token joins the one kept token with the most similar key, behind the projector; in the released
code each kept token takes up its 32 nearest, shared with others, and one more token takes up what is left.
"""

import torch
from torch import Tensor

from vispco.cost.dimensions import Dimensions
from vispco.scorers.base import Merge, Scorer, Selection, VisionNeeds, register, top_tokens
from vispco.scorers.context import ScoringContext
from vispco.scorers.ranking import key_cosine_flops, nearest

_REACH = 1.5  # quartile distances above the third quartile


@register
class PruMerge(Scorer):
    """Outliers of attention.

    adaptive: before the language model keep no more than the outliers (at least one); without, and deeper, the schedule's
    count. merge: add the others to those kept.
    """

    name = "prumerge"
    needs_attention = False

    def __init__(self, *, adaptive: bool = True, merge: bool = True) -> None:
        self.adaptive, self.merge = adaptive, merge
        self.decides_count, self.merges = adaptive, merge
        self.needs_vision = VisionNeeds(attention=(-1,), keys=(-1,) if merge else ())

    def acts_at(self, layer: int) -> bool:
        return self.adaptive and layer == 0

    def select(self, context: ScoringContext) -> Selection:
        attention, live, counts, most = context.vision.attention[-1], context.live, context.counts, context.max_count
        if self.acts_at(context.layer):
            lower, upper = (_quantile(attention, live, share) for share in (0.25, 0.75))
            outliers = (live & (attention > upper + _REACH * (upper - lower))).sum(-1)
            counts = counts.minimum(outliers.clamp(min=1))
            most = int(counts.max())  # the engine asks the device for its own count here, too
        keep = top_tokens(attention, live, counts)
        if not self.merge:
            return Selection(keep, attention)
        into = torch.where(live, nearest(context.vision.keys[-1], keep, most), -1)
        return Selection(keep, attention, Merge(into, torch.where(keep, 1.0, attention.float()), normalise=False))

    def flops_per_kept(self, num_visual: int, dimensions: Dimensions) -> int:
        return key_cosine_flops(num_visual, dimensions) if self.merge else 0


def _quantile(values: Tensor, among: Tensor, share: float) -> Tensor:
    """A quantile of the marked values of each sample, interpolated: [B, V] -> [B, 1]."""
    ordered = torch.where(among, values.float(), torch.inf).sort(-1).values
    place = share * (among.sum(-1, keepdim=True) - 1).clamp(min=0)
    below = place.long()
    low, high = ordered.gather(1, below), ordered.gather(1, (below + 1).clamp(max=values.shape[1] - 1))
    return torch.where(place > below, low + (place - below) * (high - low), low)
