"""AIM: tokens that are alike are merged before the language model; inside it, those stay where attention ends up.

Zhong et al., "AIM: Adaptive Inference of Multi-Modal LLMs via Token Merging and Pruning" (ICCV 2025).

Inside the language model (`aim`): PageRank on the attention map of the layer before: softmax of its logits at temperature
0.1, five steps from a uniform start over all tokens, head by head; then the root mean square over heads. One head's map is
in memory at a time.
Faithful: score and place. The released code only masks, and starts from padding too; here tokens leave, and a sample in a
batch is scored as it is alone.

Before the language model (`aim-merge`), after ToMe (Bolya et al., ICLR 2023): in each picture or frame, tokens at even places
are matched with the most similar one at an odd place; the best-matched are averaged into it, at most half of all at a time,
until the count is reached.
Faithful: matching on the projected tokens, plain means, halving. After the paper: any count, not only 1/2, 1/4, ...; the
best matches are taken over all pictures of a sample; survivors keep their order and the place of the odd token. Inside a
vision tower (`aim-merge(by_size=true,by_keys=true)@tower.1`, with a schedule that falls a little before each block) it is ToMe:
cells are matched by the keys of the block before, mean over heads (rotated in towers that do so), joined by size-weighted means,
and the sizes count in attention. Not faithful there: cells are joined before a block, not between its halves.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from vispco.core.indexing import token_index
from vispco.cost.dimensions import Dimensions
from vispco.scorers.base import Merge, Scorer, Selection, VisionNeeds, ranks, register
from vispco.scorers.context import ScoringContext
from vispco.scorers.grid import Grid, places_within
from vispco.scorers.ranking import key_cosine_flops, packed, states_at


@register
class AIM(Scorer):
    """PageRank of the attention map."""

    name = "aim"

    def __init__(self, steps: int = 5, temperature: float = 0.1) -> None:
        self.steps, self.temperature = steps, temperature

    def score(self, context: ScoringContext) -> Tensor:
        return context.attention_flow(self.steps, self.temperature)

    def choice_flops(self, num_tokens: int, num_visual: int, dimensions: Dimensions) -> int:  # noqa: ARG002
        return dimensions.heads * 2 * num_tokens**2 * (dimensions.head_dim + self.steps)


@register
class AimMerge(Scorer):
    """Bipartite merging. by_size: merged tokens weigh as many as they are made of; else each pair is a plain mean.

    by_keys: what is alike is said by keys of the vision tower (before the language model those of its last block).
    """

    name = "aim-merge"
    needs_attention = False
    needs_hidden = True
    merges = True
    serves_tower = True
    by_size: bool = False
    by_keys: bool = False

    def __init__(self, *, by_size: bool = False, by_keys: bool = False) -> None:
        if by_size:
            self.by_size = by_size
        if by_keys:
            self.by_keys, self.needs_vision = by_keys, VisionNeeds(keys=(-1,))

    def select(self, context: ScoringContext) -> Selection:
        live, counts, picture = context.live, context.counts, Grid.of(context.layout).picture
        states, alive = context.hidden.float(), live
        if self.by_keys:
            states = context.vision.keys[-1].float()
        slots = token_index(live.shape[1], live.device)
        into = slots.expand_as(live)
        weight = torch.ones_like(live, dtype=torch.float32)
        sizes, layout = context.layout.image_sizes or (), context.layout
        if (
            tuple(rows * columns for _, rows, columns in sizes) == layout.whole.num_visual
        ):  # one picture for each sample
            rounds = max(_halvings(*pair) for pair in zip(layout.num_visual, context.host_counts, strict=True))
        else:
            rounds = max(layout.num_visual).bit_length()  # some of a sample's pictures may end before others
        for _ in range(rounds):
            number = alive.sum(-1)
            target, similar = _matches(states, alive, picture)
            leaving = torch.minimum(number - counts, number // 2).clamp(min=0)
            source = (ranks(similar, target >= 0) < leaving[:, None]) & (target >= 0)
            onto = torch.where(source, target, slots)
            size = torch.ones_like(weight).scatter_add(1, onto, source.float())  # of each target's group, itself in it
            part = torch.where(alive, 1 / size.gather(1, onto), 0.0)
            states = torch.zeros_like(states).scatter_add(
                1, onto[..., None].expand_as(states), states * part[..., None]
            )
            weight, into = weight * part.gather(1, into), onto.gather(1, into)
            alive = alive & ~source
        keep = alive & (alive.cumsum(-1) <= counts[:, None])  # pictures of one token each cannot be merged
        into = torch.where(live, into, -1)
        return Selection(keep, merge=Merge(into) if self.by_size else Merge(into, weight, normalise=False))

    def choice_flops(self, num_tokens: int, num_visual: int, dimensions: Dimensions) -> int:  # noqa: ARG002
        """At most: as many rounds as it takes to come down to one token."""
        rounds = np.ceil(np.log2(np.maximum(num_visual, 2))).astype(np.int64)
        return rounds * np.maximum(num_visual // 2, 1) * self._row_flops(num_visual, dimensions)  # type: ignore[no-any-return]

    def tower_flops(self, there: int, kept: int, dimensions: Dimensions) -> int:
        return _halvings(there, kept) * max(there // 2, 1) * self._row_flops(there, dimensions)

    def _row_flops(self, number: int, dimensions: Dimensions) -> int:
        """FLOPs of comparing all tokens with one of them."""
        return key_cosine_flops(number, dimensions) if self.by_keys else 2 * number * dimensions.hidden


def _halvings(number: int, count: int) -> int:
    """The number of rounds until `count` of a picture's tokens are left, of which each merges at most half."""
    rounds = 0
    while number > max(count, 1):
        number, rounds = number - number // 2, rounds + 1
    return rounds


def _matches(states: Tensor, alive: Tensor, picture: Tensor) -> tuple[Tensor, Tensor]:
    """For each live token at an even place of its picture the slot of the most similar one at an odd place, -1 for none.

    Returns int64 [B, V] and the cosine of the match, float [B, V].
    """
    width = alive.shape[1]
    slots = token_index(width, alive.device)
    odd = alive & (places_within(slots, picture, alive) % 2 == 1)
    targets = packed(odd, max(width // 2, 1))
    unit = functional.normalize(states, dim=-1)
    similar = unit @ states_at(unit, targets).transpose(1, 2)  # [B, V, V / 2]
    inside = targets.clamp(max=width - 1)
    same = (picture.gather(1, inside)[:, None] == picture[..., None]) & (targets < width)[:, None]
    best = similar.masked_fill(~same, -torch.inf).max(-1)
    matched = alive & ~odd & (best.values > -torch.inf)
    return torch.where(matched, inside.gather(1, best.indices), -1), best.values
