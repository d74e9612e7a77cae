"""DART: tokens that are unlike a few pivots.

Wen et al., "Stop Looking for Important Tokens in Multimodal Language Models: Duplication Matters More" (EMNLP 2025). Pivots
are the 4 visual and 4 text tokens whose keys of the layer before are largest. The visual pivots stay; then each pivot in turn
adds the same number of tokens that are least like it, by the cosine of hidden states.
Faithful: the rule and the place. After it: a key's size is the L1 norm over rotary pairs, since that of single entries changes
with a token's absolute position, and so with padding. The released code applies the model's final norm to the states first, and
takes the pivots in no defined order; here the visual ones come first, larger keys before smaller ones.
"""

import torch
from torch import Tensor
from torch.nn import functional

from vispco.cost.dimensions import Dimensions
from vispco.scorers.base import Scorer, Selection, ranks, register
from vispco.scorers.context import ScoringContext


@register
class DART(Scorer):
    """Few duplicates of a few pivots."""

    name = "dart"
    needs_hidden = True
    needs_text_hidden = True

    def __init__(self, visual_pivots: int = 4, text_pivots: int = 4) -> None:
        self.visual_pivots, self.text_pivots = visual_pivots, text_pivots

    def select(self, context: ScoringContext) -> Selection:
        live, counts, layout = context.live, context.counts, context.layout
        seen = min(self.visual_pivots, live.shape[1]), min(self.text_pivots, layout.instruction_index.shape[1])
        rank = ranks(_size(context.keys("visual")), live)
        text = layout.instruction_index < layout.length
        text_rank = ranks(_size(context.keys("text")), text)
        own = counts.clamp(max=seen[0])
        pivots = torch.cat([_first(context.hidden, rank, seen[0]), _first(context.text_hidden, text_rank, seen[1])], 1)
        unlike = -(functional.normalize(context.hidden.float(), dim=-1) @ pivots.transpose(1, 2))  # [B, V, P]
        number = torch.arange(sum(seen), device=live.device)
        there = torch.where(number < seen[0], number < own[:, None], number - seen[0] < text.sum(-1, keepdim=True))
        keep = (rank < own[:, None]) & live
        rest, given = counts - own, there.long().cumsum(-1) - 1  # pivots are counted 0, 1, ... among those there are
        for place in range(sum(seen)):
            share = rest // there.sum(-1).clamp(min=1) + (given[:, place] < rest % there.sum(-1).clamp(min=1))
            quota = torch.where(there[:, place], share, 0)
            keep = keep | ((ranks(unlike[..., place], live & ~keep) < quota[:, None]) & live & ~keep)
        return Selection(keep, 4 * keep + unlike.mean(-1))

    def choice_flops(self, num_tokens: int, num_visual: int, dimensions: Dimensions) -> int:  # noqa: ARG002
        return 2 * (self.visual_pivots + self.text_pivots) * num_visual * dimensions.hidden


def _size(keys: Tensor) -> Tensor:
    """The lengths of a key's rotary pairs, summed: [B, N, H_kv, d] -> float32 [B, N]."""
    first, second = keys.float().chunk(2, dim=-1)  # rotary embeddings turn the entries i and i + d/2 together
    return (first**2 + second**2).sqrt().sum((-1, -2))


def _first(states: Tensor, rank: Tensor, count: int) -> Tensor:
    """The states with ranks 0, 1, ..., of length 1: [B, N, D], int64 [B, N] -> float [B, count, D]."""
    order = rank.argsort(-1)[:, :count]
    return functional.normalize(states.gather(1, order[..., None].expand(-1, -1, states.shape[2])).float(), dim=-1)
