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

BITS = 16  # of a coordinate


@register
class Uniform(Scorer):
    """An even grid."""

    name = "uniform"
    needs_attention = False

    def score(self, context: ScoringContext) -> Tensor:
        """The share of its picture's live tokens that stand before a token in the order; the least is kept first."""
        if "uniform" not in context.memo:
            context.memo["uniform"] = _order(context)
        picture, order = context.memo["uniform"]
        live = context.live.long()
        left = torch.zeros_like(live).scatter_add(1, picture, live)
        before = (left.cumsum(-1) - left).gather(1, picture)
        key = torch.where(context.live, (picture << 2 * BITS) + order, torch.iinfo(torch.long).max)
        place = key.argsort(-1).argsort(-1) - before
        return -(place + 0.5) / left.gather(1, picture).clamp(min=1)


def _order(context: ScoringContext) -> tuple[Tensor, Tensor]:
    """The picture (or frame) of each visual slot, counted in its sample, and its place in the picture's order; [B, V]."""
    layout = context.layout
    image, real = layout.image_index, layout.is_visual_slot
    frame = torch.zeros_like(image) if layout.coordinates is None else layout.coordinates[..., 0]
    fresh = torch.zeros_like(real)
    fresh[:, 1:] = (image.diff(dim=-1) != 0) | (frame.diff(dim=-1) != 0)
    picture = fresh.long().cumsum(-1)
    if layout.coordinates is None or layout.image_sizes is None:
        size = torch.zeros_like(image).scatter_add(1, picture, real.long())
        column = torch.arange(image.shape[1], device=image.device) - (size.cumsum(-1) - size).gather(1, picture)
        row, column = torch.zeros_like(column), column - size.gather(1, picture) // 2
    else:
        sizes = torch.tensor(layout.image_sizes, device=image.device)[image.clamp(min=0)]
        row, column = (layout.coordinates[..., axis] - sizes[..., axis] // 2 for axis in (1, 2))
    order = torch.zeros_like(row)
    for bit in range(BITS):  # the lowest bit weighs most: even coordinates come first
        across, down = (row ^ column) >> bit & 1, row >> bit & 1
        order = 4 * order + 2 * across + down
    return picture, order
