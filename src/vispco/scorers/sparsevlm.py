"""SparseVLM: the attention of those text tokens that the picture itself points to ("raters").

Zhang et al., "SparseVLM" (ICML 2025). Raters are chosen once, on the input embeddings: softmax over text of the dot
products visual . text, averaged over visual tokens; text tokens above the mean are raters. The score is their
head-mean attention, averaged.
Options: `recycle` averages some of the rest into centres, which are among the tokens that stay (off as in version 2).
`rank` is the paper's adaptive rule: at most rank * R + bias tokens stay, R the rank of the raters' attention over the visual
tokens that are left; the released code has constants instead. The schedule still bounds it; `layers` are where the rule is
asked even if the schedule drops nothing there.

Recycling: of the tokens that are not kept, the best-scored 30 % are grouped by density peaks around a tenth as many centres,
and each centre becomes the mean of its group. The original inserts the centres in addition to the k that it keeps; here k is
such that both together are the tokens that may stay, so that the budget holds. Each centre stands at the position of its own
token, because a mean has no position. Density peaks: Rodriguez & Laio, "Clustering by fast search and find of density peaks"
(Science 2014); Du et al. for the k-nearest-neighbour density. A token is a centre if it is dense and far from anything
denser; the others join the nearest centre.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from vispco.cost.dimensions import Dimensions
from vispco.scorers.base import Merge, Scorer, Selection, ranks, register, top_tokens
from vispco.scorers.context import ScoringContext

_RANK_TOLERANCE = 1e-5  # of the largest singular value
_NEIGHBOURS = 5  # whose distance says how dense it is around a token
_SHARE = 0.3  # of what is not kept: recycled
_CENTRES = 0.1  # of what is recycled


@register
class SparseVLM(Scorer):
    """Attention of the rater rows."""

    name = "sparsevlm"

    def __init__(
        self, *, recycle: bool = False, rank: float | None = None, bias: float = 0.0, layers: Sequence[int] = ()
    ) -> None:
        self.recycle, self.rank, self.bias, self.layers = recycle, rank, bias, tuple(layers)
        self.needs_hidden = self.merges = recycle
        self.decides_count = rank is not None

    def acts_at(self, layer: int) -> bool:
        return self.rank is not None and layer in self.layers

    @property
    def rates(self) -> bool:
        return not self.recycle and self.rank is None

    def score(self, context: ScoringContext) -> Tensor:
        raters = context.once("raters", lambda: self._raters(context))
        return context.attention("text", weights=raters) / raters.sum(-1, keepdim=True).clamp(min=1)

    def select(self, context: ScoringContext) -> Selection:
        scores, counts = self.score(context), self._counts(context)
        if not self.recycle:
            return Selection(top_tokens(scores, context.live, counts), scores)
        chosen, into = recycle(context, scores, counts)
        scores = scores + 2 * chosen  # attention is at most 1, so those that were chosen outrank all others
        weight = torch.ones_like(scores)  # the method's means are plain ones
        return Selection(top_tokens(scores, context.live, counts), scores, Merge(into, weight))

    def attention_rows(self, num_instruction: int, num_live: int) -> int:  # noqa: ARG002
        return num_instruction * (1 if self.rank is None else 2)

    def to_dict(self) -> dict[str, Any]:
        """The rank rule is left out where it is not used."""
        ruled = {} if self.rank is None else {"rank": self.rank, "bias": self.bias, "layers": list(self.layers)}
        return {"name": self.name, "recycle": self.recycle, **ruled}

    def setup_flops(self, num_instruction: int, num_visual: int, dimensions: Dimensions) -> int:
        return 2 * num_instruction * num_visual * (dimensions.hidden + 1)

    def _counts(self, context: ScoringContext) -> Tensor:
        """The number of tokens that stay: the schedule's, or fewer by the rank rule."""
        if self.rank is None:
            return context.counts
        raters = context.once("raters", lambda: self._raters(context))
        rows = context.attention_table() * raters[..., None] * context.live[:, None]  # [B, R, V]
        found = torch.linalg.matrix_rank(rows, rtol=_RANK_TOLERANCE)
        return context.counts.minimum((self.rank * found + self.bias).floor().long().clamp(min=0))

    def _raters(self, context: ScoringContext) -> Tensor:
        """1 for a rater, 0 for another text token; float [B, R]."""
        layout = context.layout
        text, visual = (context.embeddings_at(i).float() for i in (layout.instruction_index, layout.visual_index))
        logits = torch.bmm(visual, text.transpose(1, 2))
        present = layout.has_instruction
        if present is not None:
            logits = logits.masked_fill(~present[:, None], torch.finfo(torch.float32).min)
        weight = layout.visual_shares[:, None]  # zero in empty slots
        relevance = torch.bmm(weight, logits.softmax(-1))[:, 0]
        if present is None:
            return (relevance >= relevance.mean(-1, keepdim=True)).float()
        mean = (relevance * present).sum(-1, keepdim=True) / present.sum(-1, keepdim=True)
        return ((relevance >= mean) & present).float()


def cluster(states: Tensor, pool: Tensor, centres: Tensor) -> tuple[Tensor, Tensor]:
    """Group the tokens of a pool around centres.

    states: [B, V, D]; pool: bool [B, V], the tokens to group; centres: int64 [B], how many groups.
    Returns bool [B, V], the centres, and int64 [B, V], the centre that each pooled token joins (-1 outside the pool).
    """
    far = torch.finfo(torch.float32).max
    pair = pool[:, :, None] & pool[:, None, :]
    distance = torch.cdist(states.float(), states.float()) / states.shape[-1] ** 0.5
    distance = distance.masked_fill(~pair, far)
    neighbours = min(_NEIGHBOURS, states.shape[1])
    nearest = distance.topk(neighbours, dim=-1, largest=False).values
    density = torch.where(nearest < far, nearest**2, 0).sum(-1).div(neighbours).neg().exp()
    tie = torch.linspace(0, 1e-6, states.shape[1], device=states.device)  # equal tokens: the earlier is denser
    density = torch.where(pool, density - tie, -1.0)
    denser = density[:, None, :] > density[:, :, None]
    to_denser = distance.masked_fill(~denser, far).amin(-1)
    widest = torch.where(pair, distance, 0).amax((-1, -2))
    to_denser = torch.minimum(to_denser, widest[:, None])
    peak = torch.where(pool, density * to_denser, -1.0)
    is_centre = (ranks(peak, pool) < centres[:, None]) & pool
    to_centre = distance.masked_fill(~is_centre[:, None, :], far)
    joined = to_centre.argmin(-1)
    own = torch.arange(states.shape[1], device=states.device).expand_as(joined)
    joined = torch.where(is_centre, own, joined)
    has_centre = is_centre.any(-1, keepdim=True)
    return is_centre, torch.where(pool & has_centre, joined, -1)


def recycle(context: ScoringContext, scores: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """Survivors and centres (float [B, V], 1 for those), and which token is averaged into which (int64 [B, V]).

    counts: int64 [B], survivors and centres together.
    """
    live = context.live
    rest, centres = live.sum(-1) - counts, torch.zeros_like(counts)
    for _ in range(3):  # the centres depend on how many are left over, and the other way round; this settles at once
        left_over = rest + centres
        recycled = torch.where(rest > 0, (left_over * _SHARE).long() + 1, 0).minimum(left_over)
        centres = ((recycled * _CENTRES).long() + 1).minimum(counts).minimum(recycled)
    rank, first = ranks(scores, live), (counts - centres)[:, None]
    pool = (rank >= first) & (rank < first + recycled[:, None]) & live
    is_centre, into = cluster(context.hidden, pool, centres)
    return (is_centre | (rank < first)).float(), into
