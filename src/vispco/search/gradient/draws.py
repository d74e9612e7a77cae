"""The randomness of a training, as functions of a seed and a place: what makes a killed run resume to the same numbers."""

from __future__ import annotations

import torch
from torch import Tensor

from vispco.cost import CostModel, Site
from vispco.search.batch import Batch


def batch_at(place: int, count: int, seed: int) -> int:
    """Which of `count` batches comes at a place of the endless order, which is shuffled anew every time round."""
    epoch, index = divmod(place, count)
    generator = torch.Generator().manual_seed(seed * 15_485_863 + epoch)
    return int(torch.randperm(count, generator=generator)[index])


def floors(batch: Batch, cost: CostModel, site: Site, *, first_full: bool) -> Tensor:
    """The least fraction of its full cost that each sample can be pruned to: [B], float64."""
    low = cost.floor(batch.num_text, batch.num_visual, site=site, first_full=first_full).double()
    return low / cost.full(batch.num_text, batch.num_visual).double()


def budgets_at(place: int, floor: Tensor, seed: int) -> Tensor:
    """A budget for each sample, drawn afresh, uniform between its floor [B] and 1: [B], float64."""
    generator = torch.Generator().manual_seed(seed * 7_368_787 + place)
    return floor + (1.0 - floor) * torch.rand(len(floor), generator=generator, dtype=torch.float64)
