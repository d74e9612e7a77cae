"""VScan, second stage: what the last instruction token would attend to in the next layer if there were no positions.

Zhang et al., "VScan" (TMLR 2026). Once, in the middle of the language model: mean over heads of the last token's row under
the queries and keys of the layer about to run, without rotary embeddings, so that near tokens are not preferred.
Faithful: the score and its place. The first stage, in the vision tower, is a scorer of its own.
"""

from torch import Tensor

from vispco.scorers.base import Scorer, register
from vispco.scorers.context import ScoringContext


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
