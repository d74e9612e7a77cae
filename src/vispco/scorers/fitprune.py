"""FitPrune: how much text *and* image look at a token.

Ye et al., "Fit and Prune" (AAAI 2025). With the head-wise maximum of the attention map, the column sum over text rows
after the image times the column mean over visual rows. Tokens leave between attention and FFN, so that a layer has
two token counts: its attention (and its cache) still sees what its FFN no longer does. The released code drops them
before the output projection too; here that one projection runs on the layer's input count.
`site="entry"` is ours: the same score, with the tokens leaving at the entry of the next layer.
"""

from typing import get_args

from torch import Tensor

from vispco.core.errors import InvalidInputError
from vispco.cost.workload import Site
from vispco.scorers.base import Scorer, register
from vispco.scorers.context import ScoringContext


@register
class FitPrune(Scorer):
    """Text attention times visual attention, head-wise maximum."""

    name = "fitprune"

    def __init__(self, *, site: Site = "mid") -> None:
        if site not in get_args(Site):
            raise InvalidInputError(f"fitprune(site={site!r}) was given. Tokens leave at 'mid' or at 'entry'.")
        self.site = site

    def score(self, context: ScoringContext) -> Tensor:
        cross = context.attention("text", heads="max")
        own = context.attention("visual", heads="max") / context.live.sum(-1, keepdim=True).clamp(min=1)
        return cross * own

    def attention_rows(self, num_instruction: int, num_live: int) -> int:
        return num_instruction + num_live
