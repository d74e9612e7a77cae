"""EVS: of a video, the tokens that differ from those at the same place one frame before.

After efficient video sampling as vLLM ships it. The score of a token is 1 - the cosine to the token at its place in the previous
frame, of states as they entered the language model. First frames, which have none before them, come first.
Faithful: the score. Not faithful: in a short clip the first frame alone would use up the count; here first frames take at most
the share `first` of it as long as others wait, spread evenly. A picture is a clip of one frame, as are all visual tokens of
a family that knows no frames: they are spread evenly.
"""

import torch
from torch.nn import functional

from vispco.core.errors import InvalidInputError
from vispco.scorers.base import Scorer, Selection, register
from vispco.scorers.baselines import Uniform
from vispco.scorers.context import ScoringContext
from vispco.scorers.grid import Grid
from vispco.scorers.ranking import Tier, select_by_tiers, share_of


@register
class EVS(Scorer):
    """Change from frame to frame. first: the largest share of what stays for first frames; 1 keeps them whole, as published."""

    name = "evs"
    needs_attention = False

    def __init__(self, *, first: float = 0.5) -> None:
        if not 0 <= first <= 1:
            raise InvalidInputError(f"first={first} was given to evs; it is a share between 0 and 1.")
        self.first = first

    def select(self, context: ScoringContext) -> Selection:
        layout, grid, cells = context.layout, Grid.of(context.layout), context.layout.coordinates
        even, most = Uniform().score(context), share_of(context.counts, self.first)
        if cells is None:
            return select_by_tiers(context.live, context.counts, Tier(even))
        unit = functional.normalize(context.visual_embeddings().float(), dim=-1)
        frame = grid.rows * grid.columns
        place = (layout.image_index << 32) + cells[..., 0] * frame + grid.row * grid.columns + grid.column
        place = place.masked_fill(~layout.is_visual_slot, torch.iinfo(torch.long).max)  # ascending in every sample
        before = torch.searchsorted(place, place - frame).clamp(max=place.shape[1] - 1)
        alike = (unit * unit.gather(1, before[..., None].expand_as(unit))).sum(-1)
        opens = cells[..., 0] == 0
        compared = ~opens & (place.gather(1, before) == place - frame)  # some may have left inside the vision tower
        change = torch.where(compared, 1 - alike, 1.0)
        return select_by_tiers(context.live, context.counts, Tier(even, opens, most), Tier(change, ~opens), Tier(even))
