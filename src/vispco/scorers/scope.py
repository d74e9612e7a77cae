"""SCOPE: tokens that the vision tower looks at and that cover what the others show.

"SCOPE: Saliency-Coverage Oriented Token Pruning for Efficient Multimodal LLMs" (NeurIPS 2025). Greedy facility location:
a token's gain is how much closer its choice brings all tokens to a chosen one, by the cosine of the features that the
projector reads, times its attention from the class token to the power of `alpha`.
Faithful: the gain. After the paper: attention is the mean over all patches in towers without a class token (SigLIP, Qwen). On a
device several tokens are taken a step (see `vispco.scorers.greedy`), by what candidates add to all candidates before them.
"""

import numpy as np
import torch
from torch import Tensor

from vispco.core.small_arrays import Numbers
from vispco.cost.dimensions import Dimensions
from vispco.scorers.base import Scorer, Selection, VisionNeeds, register
from vispco.scorers.context import ScoringContext
from vispco.scorers.greedy import GONE, GreedyPicks, feature_cosine_flops, feature_cosines

GROWTH = 1.0  # of a block, relative to the tokens that were taken
_FRESH = 8  # tokens whose gain is computed anew at a time, on the host


@register
class Scope(Scorer):
    """Saliency times coverage. alpha: the power of the saliency; 0 is coverage alone. exact: see `DivPrune`."""

    name = "scope"
    needs_attention = False
    needs_vision = VisionNeeds(features=True, attention=(-1,))
    exact: bool | None = None

    def __init__(self, *, alpha: float = 1.0, exact: bool | None = None) -> None:
        self.alpha = alpha
        if exact is not None:
            self.exact = exact

    def select(self, context: ScoringContext) -> Selection:
        saliency = context.vision.attention[-1].float() ** self.alpha
        similar = feature_cosines(context).masked_fill(~context.live[:, None], 0)  # [B, choice, covered]
        picks = GreedyPicks(context.live, exact=self.exact)
        table, weight, barred = picks.numbers(similar), picks.numbers(saliency), picks.barred()
        covered, xp, most = 0.0 * table[:, :1], picks.library, context.max_count
        buffer = picks.numbers(torch.empty_like(similar))  # one for all steps

        def gains() -> Numbers:
            closer = xp.subtract(table, covered, out=buffer)
            return xp.clip(closer, 0, None, out=closer).sum(-1) * weight + barred

        def cover(taken: int, picked: Numbers, before: Numbers) -> Numbers:
            nonlocal covered
            barred[picks.samples, picked] = GONE
            rows = table[picks.samples, picked]
            covered = xp.maximum(covered, rows if rows.shape[1] == 1 else rows.amax(1, keepdim=True))
            if not picks.host or taken == most - 1:
                return gains()
            return _largest_first(before + barred, table, covered, weight)

        def beyond_earlier(candidates: Tensor, _: Tensor) -> Tensor:
            reach = torch.maximum(similar[picks.samples, candidates], covered).cummax(1).values
            sums = torch.cat([covered, reach], dim=1).sum(-1, dtype=torch.float64)  # differences of large sums
            added: Tensor = sums.diff(dim=-1) * saliency.gather(1, candidates) + barred.gather(1, candidates)
            return added

        if picks.exact:
            return picks.choose(context.counts, most, gains(), cover)
        return picks.choose_blocks(context.counts, most, gains(), beyond_earlier, cover, growth=GROWTH)

    def setup_flops(self, num_instruction: int, num_visual: int, dimensions: Dimensions) -> int:  # noqa: ARG002
        return feature_cosine_flops(num_visual, dimensions)


def _largest_first(bounds: Numbers, table: Numbers, covered: Numbers, weight: Numbers) -> Numbers:
    """Gains of which the largest of each sample is true, given bounds: gains fall as more is covered (lazy greedy, Minoux 1978).

    bounds: [B, V], gains of earlier steps; table: [B, V, V]; covered: [B, 1, V]; weight: [B, V].
    """
    for bound, rows, reached, share in zip(bounds, table, covered, weight, strict=True):
        true = np.isneginf(bound)
        while not true[bound.argmax()]:
            stale = np.where(true, GONE, bound)
            few = np.argpartition(stale, -_FRESH)[-_FRESH:] if len(stale) > _FRESH else np.arange(len(stale))
            few = few[~true[few]]
            bound[few] = np.clip(rows[few] - reached, 0, None).sum(-1) * share[few]
            true[few] = True
    return bounds
