"""Index arithmetic of pruning as pure functions: gathering tokens and masks, padding of ragged batches, merging, restoring.

Nothing here waits for a device: every size is a host integer that the caller knows beforehand.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from vispco.core.indexing import batch_index, token_index
from vispco.core.layout import TokenLayout


@dataclass(frozen=True, eq=False)
class Stage:
    """The tokens that a run of layers processes.

    positions: int64 [B, M], where each stood in the original sequence, in order. Samples with fewer than M tokens are
        padded *on the left* with tokens that have been dropped (fill), so that the last token of all is the last.
    valid: bool [B, M], False for padding; None where there is none.
    """

    positions: Tensor
    valid: Tensor | None


def spread(values: Tensor, index: Tensor, base: Tensor) -> Tensor:
    """Write `values` [B, V] over `base` [B, N] at `index` [B, V]; an index of N is no place and is left out."""
    room = torch.cat([base, base[:, :1]], dim=1)
    return room.scatter(1, index, values)[:, :-1]


class Places:
    """Where original positions stand in the tensors that layers process at a stage; None: before any token left."""

    def __init__(self, stage: Stage | None, layout: TokenLayout) -> None:
        self.stage, self.layout = stage, layout
        self._inverse: Tensor | None = None

    def __call__(self, positions: Tensor) -> Tensor:
        """[B, R] -> [B, R]; the stage's length for a token that is gone."""
        if self.stage is None:
            return positions
        if self._inverse is None:
            (batch, length), device = self.stage.positions.shape, positions.device
            lost = torch.full((batch, self.layout.length + 1), length, device=device)
            places = token_index(length, device)
            self._inverse = lost.index_put_((batch_index(batch, device), self.stage.positions), places)
        return self._inverse.gather(1, positions)


def next_stage(here: Tensor, stage: Stage | None, length: int, *, exact: bool) -> tuple[Stage, Tensor]:
    """Pack the tokens to keep.

    here: uint8 [B, M] over the tokens of this stage (of the original sequence, where there is none), 1 for those that
    stay and 0 for the others and for padding; `length` (host) is the largest count of kept tokens in the batch; `exact` says
    that every sample keeps just that many. Returns the new stage and, int64 [B, length], where its tokens stand in the
    old one.
    """
    first = here.shape[1] - length
    order = here.sort(dim=-1, stable=True)  # what leaves, in order, then what stays, in order
    local = order.indices[:, first:]
    valid = None if exact else order.values[:, first:].bool()
    return Stage(local if stage is None else stage.positions.gather(1, local), valid), local


def gather_mask(
    mask: Tensor | None,
    slots: Tensor,
    row_slots: Tensor,
    *,
    rows: Tensor | None = None,
    offset: int = 0,
    valid: Tensor | None = None,
) -> Tensor | None:
    """The attention mask of a pruned layer, cut out of the one that the model made for the whole sequence.

    mask: [B or 1, 1, Q, K] boolean (sdpa) or additive (eager); [B, K] boolean (flash); None (plain causal). Its first
    column stands for position `offset`. slots: int64 [B, K'], the original position of each key; row_slots: [B, M], of
    each query. rows: int64 [B, M], which rows of the mask are left, None for all. valid: bool [B, K'], False for padding;
    None if there is none.
    """
    if mask is None:
        if valid is None:
            return None
        return let_fill_see_itself(causal_mask(slots, row_slots) & valid[:, None, None, :])
    barred = None if valid is None else ~valid
    columns = slots
    if offset:  # else the mask is as long as what was seen
        columns = (slots - offset).clamp(0, mask.shape[-1] - 1)
        outside = (slots < offset) | (slots >= offset + mask.shape[-1])
        barred = outside if barred is None else outside | barred
    batch = slots.shape[0]
    if mask.dim() == 2:
        picked = mask.expand(batch, -1).gather(1, columns).bool()
        return picked if barred is None else picked & ~barred
    if mask.shape[0] < batch:
        mask = mask.expand(batch, *mask.shape[1:])
    if rows is None:
        picked = mask.gather(3, columns[:, None, None, :].expand(-1, mask.shape[1], mask.shape[2], -1))
    else:
        sample = batch_index(batch, mask.device)[..., None]
        picked = mask[sample, :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)
    if barred is None:
        return picked
    closed = False if mask.dtype == torch.bool else torch.finfo(mask.dtype).min
    picked = picked.masked_fill(barred[:, None, None, :], closed)
    return let_fill_see_itself(picked) if valid is not None else picked


def causal_mask(slots: Tensor, row_slots: Tensor) -> Tensor:
    """Keys at positions [B, K] that queries at positions [B, M] see: bool [B, 1, M, K]."""
    return (slots[:, None, :] <= row_slots[:, :, None])[:, None]


def let_fill_see_itself(mask: Tensor) -> Tensor:
    """Let padding (fill) see itself, so that no row is empty (an empty row is NaN in some kernels)."""
    opened = True if mask.dtype == torch.bool else 0.0
    mask.diagonal(offset=mask.shape[-1] - mask.shape[-2], dim1=-2, dim2=-1).fill_(opened)
    return mask


def restore(x: Tensor, stage: Stage, length: int) -> Tensor:
    """Put the tokens of a stage [B, M, D] back where they stood; zeros where a token was dropped. [B, length, D]."""
    out = x.new_zeros(x.shape[0], length, *x.shape[2:])
    return out.index_put_((batch_index(x.shape[0], x.device), stage.positions.to(x.device)), x)


def merge(hidden: Tensor, into: Tensor, weight: Tensor, *, normalise: bool = True) -> Tensor:
    """Join tokens: hidden [B, M, D]; into int64 [B, M], where each goes, -1 for nowhere; weight float [B, M].

    A target becomes the weighted sum of all tokens that name it (itself among them, if it names itself), divided by the sum of
    their weights if `normalise`. In float32.
    """
    weight = torch.where(into >= 0, weight, 0.0)
    target = into.clamp(min=0)
    sums = torch.zeros_like(hidden, dtype=torch.float32)
    sums = sums.scatter_add(1, target[..., None].expand_as(hidden), hidden.float() * weight[..., None])
    named = torch.zeros_like(weight).scatter_add(1, target, (into >= 0).float()) > 0
    if normalise:
        total = torch.zeros_like(weight).scatter_add(1, target, weight)
        sums = sums / torch.where(total > 0, total, 1.0)[..., None]
        named = named & (total > 0)
    return torch.where(named[..., None], sums.to(hidden.dtype), hidden)
