"""Rows of a layer's attention map, from its queries and keys: what a scorer reads, whatever kernel the model runs.

SDPA and flash attention return no weights. The rows that a scorer names are computed again here, and only those: for
one query that is one row; for all visual queries it is done in blocks, so that no N x N map exists at any time.
"""

import torch
from torch import Tensor

from vispco.core.indexing import batch_index
from vispco.engine.attention import AttentionCall
from vispco.scorers.context import Heads

_BLOCK_ELEMENTS = 1 << 22
"""The number of attention weights that may be in memory at a time while rows are summed up."""


def received_attention(
    call: AttentionCall,
    rows: Tensor,
    columns: Tensor,
    heads: Heads = "mean",
    *,
    present: Tensor | None = None,
    weights: Tensor | None = None,
    hidden_keys: Tensor | None = None,
    at_end: bool = False,
) -> Tensor:
    """Attention that the columns receive from the rows, summed over rows: float32 [B, V].

    rows: int64 [B, R] and columns: int64 [B, V], places among this pass's tokens (0..M-1). heads: how the head dimension
    is reduced first, row by row. present: bool [B, R] leaves rows out, weights: float [B, R] weighs them.
    hidden_keys: bool [B, K], keys that are hidden besides those of the call's mask. at_end: the rows are the last tokens
    of all, which have no future.
    """
    keys = call.key
    rows, columns = rows.to(keys.device), columns.to(keys.device)
    shift = keys.shape[2] - call.query.shape[2]
    columns = columns + shift if shift else columns
    factor = None if weights is None else weights.float().to(keys.device)
    if present is not None:
        present = present.to(keys.device)
        factor = present if factor is None else factor * present
    block = max(1, _BLOCK_ELEMENTS // max(1, rows.shape[0] * call.query.shape[1] * keys.shape[2]))
    total: Tensor | None = None
    for start in range(0, rows.shape[1], block):
        part = slice(start, start + block)
        table = attention_weights(call, rows[:, part], hidden_keys, at_end=at_end)  # [B, H, r, K]
        reduced = table.mean(1) if heads == "mean" else table.amax(1)
        weighted = reduced if factor is None else reduced * factor[:, part, None]
        summed = (weighted[:, 0] if weighted.shape[1] == 1 else weighted.sum(1)).gather(1, columns)
        total = summed if total is None else total + summed
    return torch.zeros(columns.shape, device=keys.device) if total is None else total


def attention_weights(
    call: AttentionCall, rows: Tensor, hidden_keys: Tensor | None = None, *, at_end: bool = False
) -> Tensor:
    """The attention of some queries, rows int64 [B, R]: float32 [B, H, R, K]."""
    logits = attention_logits(call, rows, hidden_keys, at_end=at_end)
    if call.sinks is None:
        return logits.softmax(-1)
    sinks = call.sinks.float().view(1, -1, 1, 1).expand(logits.shape[0], -1, logits.shape[2], -1)
    return torch.cat([logits, sinks], dim=-1).softmax(-1)[..., :-1]


def attention_logits(
    call: AttentionCall, rows: Tensor, hidden_keys: Tensor | None = None, *, at_end: bool = False
) -> Tensor:
    """Logits before softmax, masks included: rows int64 [B, R] -> float32 [B, H, R, K]."""
    query = call.query[batch_index(rows.shape[0], rows.device), :, rows]  # [B, R, H, d]
    batch, count, num_heads, dim = query.shape
    kv_heads = call.key.shape[1]
    if count > 1:
        query = query.transpose(1, 2)
    grouped = query.reshape(batch * kv_heads, num_heads // kv_heads * count, dim)  # query heads share keys
    keys = call.key.reshape(batch * kv_heads, -1, dim).transpose(1, 2)
    logits = torch.bmm(grouped, keys).view(batch, num_heads, count, -1).float() * call.scale
    if call.softcap is not None:
        logits = torch.tanh(logits / call.softcap) * call.softcap
    if at_end and call.mask is None and hidden_keys is None:
        return logits
    width, mask = logits.shape[3], call.mask
    closed = torch.finfo(logits.dtype).min
    if mask is None or mask.dim() == 2:  # no mask, or padding alone (flash attention): causal by itself
        if call.is_causal:
            shift = width - call.query.shape[2]
            future = torch.arange(width, device=rows.device) > rows[:, :, None] + shift
            logits = logits.masked_fill(future[:, None], -torch.inf if mask is None else closed)
        if mask is not None:
            logits = logits.masked_fill(~mask.bool()[:, None, None, -width:], closed)
    else:
        if mask.shape[0] < batch:
            mask = mask.expand(batch, -1, -1, -1)
        picked = mask[batch_index(batch, rows.device), :, rows]  # [B, R, 1, K]
        if count > 1:
            picked = picked.transpose(1, 2)
        logits = logits.masked_fill(~picked, closed) if picked.dtype == torch.bool else logits + picked.float()
    if hidden_keys is not None:
        logits = logits.masked_fill(hidden_keys[:, None, None, :], closed)
    return logits
