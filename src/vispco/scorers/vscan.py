"""VScan: before the language model a local and a global scan of the picture; inside it, attention without positions.

Zhang et al., "VScan: Rethinking Visual Token Reduction for Efficient Large Vision-Language Models" (TMLR 2026).

First stage (`vscan`). Local half: most attention in an early block, with a limit for each window of four by four tokens.
Global half: most attention in the last block that the projector sees. Each other token is averaged into the kept one that
is nearest by cosine, behind the projector.
Faithful: as released for Qwen2.5-VL (windows of 4 x 4, its first full-attention block). After it: CLIP towers have the
same windows (6 x 6 in the released code) and attention from the class token; pictures of a sample share the windows.

Second stage (`vscan-inside`). Once, in the middle of the language model: mean over heads of the last instruction token's row
under the queries and keys of the layer about to run, without rotary embeddings, so that near tokens are not preferred.
Faithful: the score and its place.
"""

import torch
from torch import Tensor

from vispco.cost.dimensions import Dimensions
from vispco.scorers.base import Merge, Scorer, Selection, VisionNeeds, ranks, register
from vispco.scorers.context import Block, ScoringContext
from vispco.scorers.grid import Grid, places_within
from vispco.scorers.ranking import Tier, nearest, select_by_tiers

_WINDOW = 4  # tokens to a side


@register
class VScan(Scorer):
    """Local and global scan. merge: what is not kept is averaged into the nearest kept token. block: the early block."""

    name = "vscan"
    needs_attention = False

    def __init__(self, *, merge: bool = True, block: Block = 0.22) -> None:
        self.merge, self.block = merge, block
        self.merges = self.needs_hidden = merge
        self.needs_vision = VisionNeeds(attention=(block, -1))

    def select(self, context: ScoringContext) -> Selection:
        early, last = context.vision.attention[self.block], context.vision.attention[-1]
        live, half = context.live, context.counts // 2
        window, number = _windows(Grid.of(context.layout), context.layout.is_visual_slot)
        limit = (half + number - 1) // number
        first = places_within(ranks(early, live), window, live) < limit[:, None]
        chosen = select_by_tiers(live, context.counts, Tier(early, first, half), Tier(last))
        if not self.merge:
            return chosen
        into = torch.where(live, nearest(context.hidden, chosen.keep, context.max_count), -1)
        return Selection(chosen.keep, chosen.scores, Merge(into))

    def flops_per_kept(self, num_visual: int, dimensions: Dimensions) -> int:
        return 2 * num_visual * dimensions.hidden if self.merge else 0


def _windows(grid: Grid, real: Tensor) -> tuple[Tensor, Tensor]:
    """The window of each visual slot, int64 [B, V], and how many windows a sample has, [B]. Edges join the last window."""
    down, across = ((side // _WINDOW).clamp(min=1) for side in (grid.rows, grid.columns))
    row, column = torch.minimum(grid.row // _WINDOW, down - 1), torch.minimum(grid.column // _WINDOW, across - 1)
    corner = real & (grid.row == 0) & (grid.column == 0)
    window = (grid.picture << 20) + row * across + column
    return window, torch.where(corner, down * across, 0).sum(-1).clamp(min=1)


@register
class VScanInside(Scorer):
    """One row of attention without positions, of the layer that is entered."""

    name = "vscan-inside"
    needs_attention = False
    needs_entering = True

    def score(self, context: ScoringContext) -> Tensor:
        return context.attention("last", of="entering", rotary=False)

    def attention_rows(self, num_instruction: int, num_live: int) -> int:  # noqa: ARG002
        return 1
