"""HiMAP: first what the text attends to, deeper what the picture itself attends to.

Yin et al., "Lifting the Veil on Visual Information Flow in MLLMs" (CVPR 2025). Mean over heads; a token's score is the sum of
the attention that it receives from all text tokens after the picture (rows='text', the first stage, layer 2) or from the
visual tokens that are left (rows='visual', the second stage, layer 8).
Faithful: scores, places, positions kept. The released code cannot decode with a cache; this does.
"""

from typing import Literal

from torch import Tensor

from vispco.core.errors import InvalidInputError
from vispco.scorers.base import Scorer, register
from vispco.scorers.context import ScoringContext


@register
class HiMAP(Scorer):
    """Column sums of attention over text rows, or over visual rows."""

    name = "himap"

    def __init__(self, rows: Literal["text", "visual"] = "text") -> None:
        if rows not in ("text", "visual"):
            raise InvalidInputError(f"rows={rows!r} was given to himap. It is 'text' or 'visual'.")
        self.rows = rows

    def score(self, context: ScoringContext) -> Tensor:
        return context.attention(self.rows)

    def attention_rows(self, num_instruction: int, num_live: int) -> int:
        return num_instruction if self.rows == "text" else num_live
