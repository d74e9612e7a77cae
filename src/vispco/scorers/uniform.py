"""Uniform: tokens spread evenly over each picture, without a look at it. The baseline that many methods lose to.

The tokens of a picture are put into an order whose every beginning is spread evenly over the grid: the middle, then
ever finer grids around it, each begun with its diagonals (the order of Bayer's dither matrix). Frames and pictures get
shares in proportion to their tokens. Where a family knows no grid, a picture is a line of tokens.
"""

from __future__ import annotations

import torch
from torch import Tensor

from vispco.scorers.base import Scorer, register
from vispco.scorers.context import ScoringContext
from vispco.scorers.grid import Grid, places_within

_BITS = 16  # of a coordinate


@register
class Uniform(Scorer):
    """An even grid."""

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
