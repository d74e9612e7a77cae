"""FastV: the attention that the last instruction token pays to each visual token.

Chen et al., "An Image is Worth 1/2 Tokens After Layer 2" (ECCV 2024). Mean over heads of one attention row of the
layer before; the best round(r N_v) stay and keep their positions.
"""

from torch import Tensor

from vispco.scorers.base import Scorer, register
from vispco.scorers.context import ScoringContext


@register
class FastV(Scorer):
    """One row of attention."""

    name = "fastv"

    def score(self, context: ScoringContext) -> Tensor:
        return context.attention("last")

    def attention_rows(self, num_instruction: int, num_live: int) -> int:  # noqa: ARG002
        return 1
