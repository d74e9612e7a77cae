"""CDPruner: tokens that are diverse and concern the instruction, by a conditional determinantal point process.

Zhang et al., "Beyond Attention or Similarity: Maximizing Conditional Diversity for Token Pruning in MLLMs" (NeurIPS 2025).
Kernel: relevance_i * cosine_ij * relevance_j of the projected tokens, relevance scaled to 0..1; the set with the largest
determinant is built greedily (fast MAP inference, Chen et al. 2018).
Faithful: kernel and inference. After the paper: relevance is the cosine of a token to the mean embedding of the
instruction, because the models here have no CLIP text tower (with which the paper uses the *negative* similarity). On a
device several tokens are taken a step (see `vispco.scorers.greedy`): of the candidates those that the ones before them
explain least, by a Cholesky factor of their part of the kernel; then the kernel of all tokens is conditioned on them at once.

`variant="openvino"` is the kernel that OpenVINO GenAI ships: (1 - w) cosine + w relevance * cosine * relevance, w being
`relevance_weight`, on the two halves of the sequence apart, with equal counts (`split`).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from vispco.core.errors import InvalidInputError
from vispco.core.small_arrays import Numbers
from vispco.cost.dimensions import Dimensions
from vispco.scorers.base import Scorer, Selection, register
from vispco.scorers.context import ScoringContext
from vispco.scorers.greedy import GONE, GreedyPicks, embedding_cosines

_VARIANTS = ("paper", "openvino")
_NOTHING = 1e-6  # a gain below this is rounding error: the tokens taken span this one already
_RIDGE = 2e-6  # on the diagonal of the kernel for blocks: like tokens in one must leave it positive definite
_SPANNED = 20 * _RIDGE  # `_NOTHING` for blocks
GROWTH = 1.25  # of a block, relative to the tokens that were taken


@register
class CDPruner(Scorer):
    """Greedy determinantal choice.

    variant: 'paper' or 'openvino'. relevance_weight: w of the blend, for 'openvino'. split: choose in each half of the
    sequence apart; by default only for 'openvino'. exact: True is one token a step, False blocks of tokens; by default exact
    on the host, blocks on a device.
    """

    name = "cdpruner"
    needs_attention = False
    reads_question = True
    exact: bool | None = None

    def __init__(
        self,
        *,
        variant: str = "paper",
        relevance_weight: float = 0.5,
        split: bool | None = None,
        exact: bool | None = None,
    ) -> None:
        if variant not in _VARIANTS:
            raise InvalidInputError(
                f"variant={variant!r} of cdpruner was asked for. Variants are {', '.join(_VARIANTS)}."
            )
        if not 0 <= relevance_weight <= 1:
            raise InvalidInputError(
                f"relevance_weight={relevance_weight} was given to cdpruner; it is between 0 and 1."
            )
        self.variant, self.relevance_weight, self.split = variant, relevance_weight, split
        if exact is not None:
            self.exact = exact

    def select(self, context: ScoringContext) -> Selection:
        live, counts, most = context.live, context.counts, context.max_count
        if not (self.variant == "openvino" if self.split is None else self.split):
            return self._choose(context, live, counts, most)
        early = live & (live.cumsum(-1) <= live.sum(-1, keepdim=True) // 2)
        first: Any = self._choose(context, early, counts // 2, most // 2)
        second: Any = self._choose(context, live & ~early, counts - counts // 2, most - most // 2)
        return Selection(first.keep | second.keep, torch.where(early, first.scores, second.scores))

    def _choose(self, context: ScoringContext, pool: Tensor, counts: Tensor, most: int) -> Selection:
        """The set with the largest determinant in a pool of tokens; bool [B, V]."""
        relevance, other = context.once("relevance", lambda: _relevance(context)), ~pool
        least = relevance.masked_fill(other, torch.inf).amin(-1, keepdim=True)
        spread = relevance.masked_fill(other, -torch.inf).amax(-1, keepdim=True) - least
        # to 0..1 within the pool, never quite 0; 1 where all are alike
        relevance = torch.where(spread > _NOTHING, (relevance - least + _NOTHING) / spread, 1.0)
        similar = embedding_cosines(context)
        kernel = (relevance[:, :, None] * similar).mul_(relevance[:, None])  # the one table beside the cosines
        if self.variant == "openvino":
            kernel.mul_(self.relevance_weight).add_(similar, alpha=1 - self.relevance_weight)
        picks = GreedyPicks(pool, exact=self.exact)
        return (_one_by_one if picks.exact else _in_blocks)(picks, kernel, counts, most)

    def flops_per_kept(self, num_visual: int, dimensions: Dimensions) -> int:  # noqa: ARG002
        return 2 * num_visual * num_visual  # conditioning in blocks; one by one takes less

    def setup_flops(self, num_instruction: int, num_visual: int, dimensions: Dimensions) -> int:  # noqa: ARG002
        return 2 * num_visual * (num_visual + 1) * dimensions.hidden


def _one_by_one(picks: GreedyPicks, kernel: Tensor, counts: Tensor, most: int) -> Selection:
    """Rows of the Cholesky factor of the chosen kernel, one for each token that is taken; kernel: float [B, V, V]."""
    xp, samples, barred, table = picks.library, picks.samples, picks.barred(), picks.numbers(kernel)
    factor = picks.numbers(kernel.new_zeros(kernel.shape[0], most, kernel.shape[2]))

    def above_nothing(gains: Numbers) -> Numbers:
        return xp.where(gains > _NOTHING, gains, barred)

    def residual(step: int, picked: Numbers, gains: Numbers) -> Numbers:
        barred[samples, picked] = GONE
        gain, row = gains[samples, picked], table[samples, picked]  # [B, 1], [B, 1, V]
        if step:
            known = factor[:, :step]
            row = row - known[samples, :, picked] @ known
        scale = xp.where(gain > _NOTHING, gain.clip(_NOTHING) ** -0.5, 0.0)
        factor[:, step] = row[:, 0] * scale
        return above_nothing(gains - factor[:, step] ** 2)

    gains = above_nothing(picks.numbers(kernel.diagonal(dim1=1, dim2=2)) + barred)
    return picks.choose(counts, most, gains, residual)


def _in_blocks(picks: GreedyPicks, kernel: Tensor, counts: Tensor, most: int) -> Selection:
    """The kernel itself is conditioned on each block, in place: what is left of a token is its entry on the diagonal.

    A token that may not be taken has -inf there. It is a candidate only behind all that may, whose factor it does not change.
    """
    variance = kernel.diagonal(dim1=1, dim2=2)
    variance.add_(_RIDGE).masked_fill_(~picks.live, GONE)

    def unexplained(candidates: Tensor, _: Tensor) -> Tensor:
        factor, _ = torch.linalg.cholesky_ex(picks.among(kernel, candidates))
        return functional.threshold(factor.diagonal(dim1=1, dim2=2), _SPANNED**0.5, 0.0)  # the root of what is left

    def condition(_: int, picked: Tensor, __: Tensor) -> Tensor:
        rows = kernel[picks.samples, picked]
        solved, _ = torch.linalg.solve_ex(picks.among(kernel, picked), rows)
        torch.baddbmm(kernel, rows.mT, solved, alpha=-1, out=kernel)
        variance.scatter_(1, picked, GONE)
        return functional.hardshrink(variance, _SPANNED)

    return picks.choose_blocks(
        counts, most, functional.hardshrink(variance, _SPANNED), unexplained, condition, growth=GROWTH
    )


def _relevance(context: ScoringContext) -> Tensor:
    """Cosine of each visual token to the mean of the instruction's embeddings; float [B, V]."""
    index = context.layout.instruction_index.to(context.embeddings.device)
    present = (index < context.layout.length)[..., None]
    text = context.embeddings_at(index).float()
    mean = (text * present).sum(1, keepdim=True) / present.sum(1, keepdim=True)
    visual = functional.normalize(context.visual_embeddings().float(), dim=-1)
    return (visual @ functional.normalize(mean, dim=-1).transpose(1, 2))[..., 0]
