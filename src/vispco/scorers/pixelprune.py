"""PixelPrune: cells whose pixels repeat a neighbour's leave first; of the others those stay that are unlike one another.

After PixelPrune, for documents and screens, inside a vision tower (`pixelprune@tower.0+divprune+fastv`). A is the cell to the
left, B the one above, C the one above left. The prediction is B where C equals A and not B, else A (or the one of them that
is there); a cell whose pixels differ from it by at most `tolerance` repeats it. A decoder that reads row by row
could write all such cells itself: nothing is lost but their positions.
Faithful: the rule, before block 0, positions kept. Not faithful: a schedule says how many stay. Where more are left than that,
DivPrune chooses among them; where fewer, the first repeated ones stay, too. The language model has no pixels: there the rule is
applied to the projected tokens.
"""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from vispco.core.errors import InvalidInputError
from vispco.scorers.base import Selection, register, top_tokens
from vispco.scorers.context import ScoringContext
from vispco.scorers.divprune import DivPrune
from vispco.scorers.grid import Grid


@register
class PixelPrune(DivPrune):
    """Exact repetition, then max-min diversity. tolerance: the largest difference of two pixels that are the same."""

    name = "pixelprune"
    needs_pixels = True

    def __init__(self, *, tolerance: float = 0.0, exact: bool | None = None) -> None:
        if not tolerance >= 0:
            raise InvalidInputError(f"tolerance={tolerance} was given to pixelprune; it is 0 or more.")
        super().__init__(exact=exact)
        self.tolerance = tolerance

    def select(self, context: ScoringContext) -> Selection:
        fresh = context.live & ~self._repeats(context)
        found: Any = super().select(replace(context, live=fresh, counts=context.counts.minimum(fresh.sum(-1))))
        scores = found.scores.masked_fill(~fresh, torch.finfo(torch.float32).min)
        return Selection(top_tokens(scores, context.live, context.counts), scores)

    def _repeats(self, context: ScoringContext) -> Tensor:
        """The live tokens that a neighbour among them foretells: bool [B, V]."""
        pixels, grid = context.vision.pixels, Grid.of(context.layout)
        values = context.visual_embeddings() if pixels is None else pixels
        place = (grid.picture << 32) + grid.row * grid.columns + grid.column
        # ascending in every sample
        place = place.masked_fill(~context.layout.is_visual_slot, torch.iinfo(torch.long).max)

        def neighbour(step: Tensor | int, inside: Tensor) -> tuple[Tensor, Tensor]:
            """Whether a token's neighbour is there, bool [B, V], and what it shows, [B, V, K]."""
            slot = torch.searchsorted(place, place - step).clamp(max=place.shape[1] - 1)
            there = inside & (place.gather(1, slot) == place - step) & context.live.gather(1, slot)
            return there, values.gather(1, slot[..., None].expand_as(values))

        def same(one: Tensor, other: Tensor) -> Tensor:
            return (one - other).abs().amax(-1) <= self.tolerance

        left, above = grid.column > 0, grid.row > 0
        (a_there, a), (b_there, b) = neighbour(1, left), neighbour(grid.columns, above)
        c_there, c = neighbour(grid.columns + 1, left & above)
        by_b = b_there & (~a_there | (c_there & same(c, a) & ~same(c, b)))
        return torch.where(by_b, same(values, b), a_there & same(values, a))
