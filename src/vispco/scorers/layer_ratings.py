"""Ratings by what one layer shows: rows of its attention, its keys, or what it changed. The best-rated tokens stay."""

from __future__ import annotations

from typing import Literal, get_args

from torch import Tensor

from vispco.core.errors import InvalidInputError
from vispco.cost.workload import Site
from vispco.scorers.base import Scorer, register
from vispco.scorers.context import ScoringContext

_TINY = 1e-9  # beyond a sliding window attention is 0


@register
class FastV(Scorer):
    """FastV: the attention that the last instruction token pays to each visual token.

    Chen et al., "An Image is Worth 1/2 Tokens After Layer 2" (ECCV 2024). Mean over heads of one attention row of the
    layer before; the best round(r N_v) stay and keep their positions.
    """

    name = "fastv"

    def score(self, context: ScoringContext) -> Tensor:
        return context.attention("last")

    def attention_rows(self, num_instruction: int, num_live: int) -> int:  # noqa: ARG002
        return 1


@register
class PyramidDrop(Scorer):
    """PyramidDrop: what the last instruction token would attend to in the layer that comes next.

    Xing et al., "PyramidDrop" (CVPR 2025). At the end of a stage the queries and keys of the layer about to run are computed for
    all tokens that are left; mean over heads of the last instruction token's row.
    Faithful: the score and its place. Not: survivors keep their positions here, the released code numbers them anew.
    """

    name = "pyramiddrop"
    needs_attention = False
    needs_entering = True

    def score(self, context: ScoringContext) -> Tensor:
        return context.attention("last", of="entering")

    def attention_rows(self, num_instruction: int, num_live: int) -> int:  # noqa: ARG002
        return 1


@register
class HiMAP(Scorer):
    """HiMAP: first what the text attends to, deeper what the picture itself attends to.

    Yin et al., "Lifting the Veil on Visual Information Flow in MLLMs" (CVPR 2025). Mean over heads; a token's score is the sum of
    the attention that it receives from all text tokens after the picture (rows='text', the first stage, layer 2) or from the
    visual tokens that are left (rows='visual', the second stage, layer 8).
    Faithful: scores, places, positions kept. The released code cannot decode with a cache; this does.
    """

    name = "himap"

    def __init__(self, rows: Literal["text", "visual"] = "text") -> None:
        if rows not in ("text", "visual"):
            raise InvalidInputError(f"rows={rows!r} was given to himap. It is 'text' or 'visual'.")
        self.rows = rows

    def score(self, context: ScoringContext) -> Tensor:
        return context.attention(self.rows)

    def attention_rows(self, num_instruction: int, num_live: int) -> int:
        return num_instruction if self.rows == "text" else num_live


@register
class PriorTR(Scorer):
    """PriorTR: what the question attends to beyond what any question would.

    "PriorTR" (ECCV 2026). P is the attention of the last instruction token over the visual tokens, Q that of the first token after
    the pictures, which has seen no question yet: a prior. Both are means over heads and sum to 1 over the visual tokens that are
    left; the score is P log(P / Q).
    Faithful: the score and its place; rows='text' takes the mean over all text rows, as the paper does on LLaVA. Where no text
    stands between the pictures and the last token, the two are the same and all tokens tie. Not: the variant with two passes.
    """

    name = "priortr"

    def __init__(self, rows: Literal["last", "text"] = "last") -> None:
        if rows not in ("last", "text"):
            raise InvalidInputError(f"rows={rows!r} was given to priortr. It is 'last' or 'text'.")
        self.rows = rows

    def score(self, context: ScoringContext) -> Tensor:
        asked, prior = (context.attention(rows) * context.live for rows in (self.rows, "after-image"))
        asked, prior = (each / each.sum(-1, keepdim=True).clamp(min=_TINY) for each in (asked, prior))
        return asked * ((asked + _TINY) / (prior + _TINY)).log()

    def attention_rows(self, num_instruction: int, num_live: int) -> int:  # noqa: ARG002
        return 1 + (num_instruction if self.rows == "text" else 1)


@register
class FitPrune(Scorer):
    """FitPrune: how much text *and* image look at a token.

    Ye et al., "Fit and Prune" (AAAI 2025). With the head-wise maximum of the attention map, the column sum over text rows
    after the image times the column mean over visual rows. Tokens leave between attention and FFN, so that a layer has
    two token counts: its attention (and its cache) still sees what its FFN no longer does. The released code drops them
    before the output projection too; here that one projection runs on the layer's input count.
    `site="entry"` is ours: the same score, with the tokens leaving at the entry of the next layer.
    """

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


@register
class KNorm(Scorer):
    """K-norm: the tokens with the smallest keys.

    After ViTCoP (AAAI 2026). The score of a token is minus the Euclidean length of its key in the layer before, averaged over
    heads; the tokens with the largest keys leave. No attention map is read, and no matrices are multiplied.
    Faithful: the rule by which ViTCoP ranks. Not faithful: ViTCoP ranks inside clusters, at two fixed layers; here it is all visual
    tokens, at the layers of the schedule.

    Rotary embeddings turn all heads alike, so positions do not change the length of the mean.
    """

    name = "knorm"

    def score(self, context: ScoringContext) -> Tensor:
        mean = context.keys("visual").float().mean(dim=2)  # [B, V, d]
        score: Tensor = -mean.norm(dim=-1)
        return score


@register
class V2Drop(Scorer):
    """V2Drop: how much the layer before has changed a token.

    Liu et al., "Variation-aware Vision Token Dropping" (CVPR 2026). The score of a token is the Euclidean length of the
    difference between its states at the input of this layer and of the one before; the least changed tokens leave. It reads
    no attention, so it works under every kernel.
    Faithful: the score, the place, positions kept. The released code keeps at least one token; here a schedule of none keeps none.
    """

    name = "v2drop"
    needs_attention = False
    needs_hidden = True
    needs_previous_hidden = True
    serves_tower = True

    def score(self, context: ScoringContext) -> Tensor:
        change: Tensor = (context.hidden.float() - context.previous_hidden.float()).norm(dim=-1)
        return change
