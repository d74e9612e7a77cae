"""HiPrune: objects from the middle of the vision tower with what is around them, the whole picture from its end.

"HiPrune: Training-Free Visual Token Pruning via Hierarchical Attention in Vision-Language Models" (ACL 2026). Anchors:
alpha / 5 of the tokens, those that receive most attention in a middle block; their four neighbours on the grid; the
rest by the attention received in the last block that the projector sees.
Faithful: the three parts and their sizes; the middle block is 9 of 24 in CLIP and 16 of 32 in Qwen2.5-VL, as published.
Not faithful: neighbours do not wrap around the edge of a picture, and every picture has its own width; in the released
code both are otherwise.
"""

import torch

from vispco.core.errors import InvalidInputError
from vispco.core.indexing import token_index
from vispco.scorers.base import Scorer, Selection, VisionNeeds, register, top_tokens
from vispco.scorers.context import Block, ScoringContext
from vispco.scorers.grid import Grid
from vispco.scorers.ranking import Tier, select_by_tiers


@register
class HiPrune(Scorer):
    """Anchors, neighbours, and the rest. alpha: the share of anchors and neighbours. block: the middle block."""

    name = "hiprune"
    needs_attention = False

    def __init__(self, *, alpha: float = 0.1, block: Block = 0.38) -> None:
        if not 0 <= alpha <= 1:
            raise InvalidInputError(f"alpha={alpha} was given to hiprune; it is between 0 and 1.")
        self.alpha, self.block = alpha, block
        self.needs_vision = VisionNeeds(received=(block, -1))

    def select(self, context: ScoringContext) -> Selection:
        middle, last = context.vision.received[self.block], context.vision.received[-1]
        number = (context.counts * self.alpha / 5).round().long()
        anchors = top_tokens(middle, context.live, number)
        grid, width = Grid.of(context.layout), anchors.shape[1]
        slots, near = token_index(width, anchors.device).expand_as(anchors), torch.zeros_like(anchors)
        for step in (-1, 1, -grid.columns, grid.columns):  # beside, above or below an anchor in the same picture
            other = slots + step
            inside = (other >= 0) & (other < width)
            other = other.clamp(0, width - 1)
            apart = (grid.row.gather(1, other) - grid.row).abs() + (grid.column.gather(1, other) - grid.column).abs()
            same = grid.picture.gather(1, other) == grid.picture
            near |= inside & same & (apart == 1) & anchors.gather(1, other)
        return select_by_tiers(context.live, context.counts, Tier(middle, limit=number), Tier(last, near), Tier(last))
