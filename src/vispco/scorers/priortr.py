"""PriorTR: what the question attends to beyond what any question would.

"PriorTR" (ECCV 2026). P is the attention of the last instruction token over the visual tokens, Q that of the first token after
the pictures, which has seen no question yet: a prior. Both are means over heads and sum to 1 over the visual tokens that are
left; the score is P log(P / Q).
Faithful: the score and its place; rows='text' takes the mean over all text rows, as the paper does on LLaVA. Where no text
stands between the pictures and the last token, the two are the same and all tokens tie. Not: the variant with two passes.
"""

from typing import Literal

from torch import Tensor

from vispco.core.errors import InvalidInputError
from vispco.scorers.base import Scorer, register
from vispco.scorers.context import ScoringContext

_TINY = 1e-9  # beyond a sliding window attention is 0


@register
class PriorTR(Scorer):
    """A token's share in the divergence of two attention rows."""

    name = "priortr"

    def __init__(self, rows: Literal["last", "text"] = "last") -> None:
        if rows not in ("last", "text"):
            raise InvalidInputError(f"rows={rows!r} was given to priortr. It is 'last' or 'text'.")
        self.rows = rows

    def score(self, context: ScoringContext) -> Tensor:
        asked, prior = (self._distribution(context, rows) for rows in (self.rows, "after-image"))
        return asked * ((asked + _TINY) / (prior + _TINY)).log()

    def attention_rows(self, num_instruction: int, num_live: int) -> int:  # noqa: ARG002
        return 1 + (num_instruction if self.rows == "text" else 1)

    def _distribution(self, context: ScoringContext, rows: Literal["last", "text", "after-image"]) -> Tensor:
        received = context.attention(rows) * context.live
        return received / received.sum(-1, keepdim=True).clamp(min=_TINY)
