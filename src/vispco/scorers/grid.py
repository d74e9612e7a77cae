"""Grid positions of visual tokens: picture or frame, and cell. Without a known grid, a picture is a line."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from vispco.core.layout import TokenLayout


@dataclass(frozen=True, eq=False)
class Grid:
    """Grid positions of each visual slot, int64 [B, V].

    picture: its picture or frame, counted in its sample. row, column: its cell. rows, columns: the size of its picture.
    """

    picture: Tensor
    row: Tensor
    column: Tensor
    rows: Tensor
    columns: Tensor

    @classmethod
    def of(cls, layout: TokenLayout) -> Grid:
        image, real, cells = layout.image_index, layout.is_visual_slot, layout.coordinates
        picture = layout.picture_index
        if cells is None or layout.image_sizes is None:
            size = torch.zeros_like(image).scatter_add(1, picture, real.long())
            column = torch.arange(image.shape[1], device=image.device) - (size.cumsum(-1) - size).gather(1, picture)
            return cls(picture, torch.zeros_like(column), column, torch.ones_like(column), size.gather(1, picture))
        sizes = torch.tensor(layout.image_sizes, device=image.device)[image.clamp(min=0)]
        return cls(picture, cells[..., 1], cells[..., 2], sizes[..., 1], sizes[..., 2])


def places_within(order: Tensor, group: Tensor, among: Tensor) -> Tensor:
    """The place of each marked token among those of its group, by an order: int64 [B, V], anything elsewhere.

    order: int64 [B, V], below 2^32, different for the tokens of a group; group: int64 [B, V]; among: bool [B, V].
    """
    key = torch.where(among, (group << 32) + order, torch.iinfo(torch.long).max)
    return key.argsort(-1).argsort(-1) - torch.searchsorted(key.sort(-1).values, group << 32)
