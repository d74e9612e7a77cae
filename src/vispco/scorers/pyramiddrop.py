"""PyramidDrop: what the last instruction token would attend to in the layer that comes next.

Xing et al., "PyramidDrop" (CVPR 2025). At the end of a stage the queries and keys of the layer about to run are computed for
all tokens that are left; mean over heads of the last instruction token's row.
Faithful: the score and its place. Not: survivors keep their positions here, the released code numbers them anew.
"""

from torch import Tensor

from vispco.scorers.base import Scorer, register
from vispco.scorers.context import ScoringContext


@register
class PyramidDrop(Scorer):
    """One row of attention, of the layer that is entered."""

    name = "pyramiddrop"
    needs_attention = False
    needs_entering = True

    def score(self, context: ScoringContext) -> Tensor:
        return context.attention("last", of="entering")

    def attention_rows(self, num_instruction: int, num_live: int) -> int:  # noqa: ARG002
        return 1
