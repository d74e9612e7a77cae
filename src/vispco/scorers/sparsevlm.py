"""SparseVLM: the attention of those text tokens that the picture itself points to ("raters").

Zhang et al., "SparseVLM" (ICML 2025). Raters are chosen once, on the input embeddings: softmax over text of the dot
products visual . text, averaged over visual tokens; text tokens above the mean are raters. The score is their
head-mean attention, averaged.
Recycling is an option, off by default as in the method's version 2.
"""

import torch
from torch import Tensor

from vispco.scorers.base import Merge, Scorer, Selection, register, top_tokens
from vispco.scorers.context import ScoringContext
from vispco.scorers.recycling import recycle


@register
class SparseVLM(Scorer):
    """Attention of the rater rows."""

    name = "sparsevlm"

    def __init__(self, *, recycle: bool = False) -> None:
        self.recycle = recycle

    @property
    def needs_hidden(self) -> bool:  # type: ignore[override]
        return self.recycle

    @property
    def merges(self) -> bool:  # type: ignore[override]
        return self.recycle

    def score(self, context: ScoringContext) -> Tensor:
        raters = self._raters(context)
        return context.attention("text", weights=raters) / raters.sum(-1, keepdim=True).clamp(min=1)

    def select(self, context: ScoringContext) -> Selection:
        if not self.recycle:
            return super().select(context)
        scores = self.score(context)
        chosen, into = recycle(context, scores)
        scores = scores + 2 * chosen  # attention is at most 1, so those that were chosen outrank all others
        weight = torch.ones_like(scores)  # the method's means are plain ones
        return Selection(top_tokens(scores, context.live, context.counts), scores, Merge(into, weight))

    def attention_rows(self, num_instruction: int, num_live: int) -> int:  # noqa: ARG002
        return num_instruction

    def setup_flops(self, num_instruction: int, num_visual: int, hidden: int) -> int:
        return 2 * num_instruction * num_visual * (hidden + 1)

    def _raters(self, context: ScoringContext) -> Tensor:
        """1 for a rater, 0 for another text token; float [B, R], chosen once per prefill."""
        if "raters" not in context.memo:
            layout = context.layout
            text, visual = (context.embeddings_at(i).float() for i in (layout.instruction_index, layout.visual_index))
            logits = torch.bmm(visual, text.transpose(1, 2))
            present = layout.has_instruction
            if present is not None:
                logits = logits.masked_fill(~present[:, None], torch.finfo(torch.float32).min)
            weight = layout.visual_shares[:, None]  # zero in empty slots
            relevance = torch.bmm(weight, logits.softmax(-1))[:, 0]
            if present is None:
                context.memo["raters"] = (relevance >= relevance.mean(-1, keepdim=True)).float()
            else:
                mean = (relevance * present).sum(-1, keepdim=True) / present.sum(-1, keepdim=True)
                context.memo["raters"] = ((relevance >= mean) & present).float()
        raters: Tensor = context.memo["raters"]
        return raters
