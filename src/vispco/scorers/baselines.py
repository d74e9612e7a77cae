"""Scorers that do not look at the model: the baselines, and the one that keeps no token."""

from __future__ import annotations

import torch
from torch import Tensor

from vispco.scorers.base import Scorer, register
from vispco.scorers.context import ScoringContext
from vispco.scorers.grid import Grid, places_within

_BITS = 16  # of a coordinate


@register
class Random(Scorer):
    """Random scores: the baseline that any scorer must beat. The same seed keeps the same tokens.

    A token's score depends only on the seed and on its place among the visual tokens, so that one sample is pruned alike
    alone and in a batch, and a token that survives one layer is not drawn again at the next.
    """

    name = "random"
    needs_attention = False

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def score(self, context: ScoringContext) -> Tensor:
        def draw() -> Tensor:
            generator = torch.Generator().manual_seed(self.seed)
            return torch.rand(context.live.shape[1], generator=generator).to(context.live.device)

        return context.once("random", draw).expand_as(context.live)


@register
class Withdrawal(Scorer):
    """VTW: all visual tokens leave at one layer.

    Lin et al., "Boosting Multimodal Large Language Models with Visual Tokens Withdrawal" (AAAI 2025). Nothing is scored: from
    layer K on the model continues with text alone. Faithful with a schedule that keeps none (`Schedule.withdraw`); one that keeps
    some keeps the first ones. How the paper finds K is `vispco.compare.searches`' search of the same name.
    """

    name = "vtw"
    needs_attention = False

    def score(self, context: ScoringContext) -> Tensor:
        return torch.zeros(context.live.shape, device=context.live.device)


@register
class Uniform(Scorer):
    """Uniform: tokens spread evenly over each picture, without a look at it. The baseline that many methods lose to.

    The tokens of a picture are put into an order whose every beginning is spread evenly over the grid: the middle, then
    ever finer grids around it, each begun with its diagonals (the order of Bayer's dither matrix). Frames and pictures get
    shares in proportion to their tokens. Where a family knows no grid, a picture is a line of tokens.
    """

    name = "uniform"
    needs_attention = False

    def score(self, context: ScoringContext) -> Tensor:
        """The share of its picture's live tokens that stand before a token in the order; the least is kept first."""
        grid = context.once("grid", lambda: Grid.of(context.layout))
        picture, order = grid.picture, context.once("uniform", lambda: _order(grid))
        live = context.live.long()
        left = torch.zeros_like(live).scatter_add(1, picture, live).gather(1, picture)
        return -(places_within(order, picture, context.live) + 0.5) / left.clamp(min=1)


def _order(grid: Grid) -> Tensor:
    """The place of each visual slot in the order of its picture's cells; int64 [B, V]."""
    row, column = grid.row - grid.rows // 2, grid.column - grid.columns // 2
    order = torch.zeros_like(row)
    for bit in range(_BITS):  # the lowest bit weighs most: even coordinates come first
        across, down = (row ^ column) >> bit & 1, row >> bit & 1
        order = 4 * order + 2 * across + down
    return order
