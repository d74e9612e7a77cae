"""V2Drop: how much the layer before has changed a token.

Liu et al., "Variation-aware Vision Token Dropping" (CVPR 2026). The score of a token is the Euclidean length of the
difference between its states at the input of this layer and of the one before; the least changed tokens leave. It reads
no attention, so it works under every kernel.
Faithful: the score, the place, positions kept. The released code keeps at least one token; here a schedule of none keeps none.
"""

from torch import Tensor

from vispco.scorers.base import Scorer, register
from vispco.scorers.context import ScoringContext


@register
class V2Drop(Scorer):
    """Tokens that still change stay."""

    name = "v2drop"
    needs_attention = False
    needs_hidden = True
    needs_previous_hidden = True

    def score(self, context: ScoringContext) -> Tensor:
        assert context.hidden is not None  # noqa: S101 - declared by needs_hidden
        assert context.previous_hidden is not None  # noqa: S101 - declared by needs_previous_hidden
        change: Tensor = (context.hidden.float() - context.previous_hidden.float()).norm(dim=-1)
        return change
