"""How much the question says about where to look: the mutual information between text and visual tokens, by attention."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from vispco.core.layout import TokenLayout
from vispco.engine import attention_calls
from vispco.engine.attention import AttentionCall
from vispco.engine.rows import attention_weights
from vispco.families import family_of

TINY = 1e-12


@torch.no_grad()
def read_mutual_information(evaluator: Any, layer: int) -> Tensor:
    """Bits, summed over the heads of one layer of the unpruned model: float64 [S], in the order of the samples."""
    model, places, found = evaluator.model, [], []
    for batch in evaluator.batches:
        encoded = evaluator.store.encode(batch.samples)
        layout = family_of(model).layout(model, encoded.inputs)
        parts: list[Tensor] = []

        def see(place: int, call: AttentionCall) -> None:
            if place == layer:
                parts.append(attention_bits(call, layout))  # noqa: B023 - used in this round only

        with attention_calls(model, see):
            model(**encoded.inputs, use_cache=False, logits_to_keep=1)
        places += batch.rows
        found.append(parts[0].cpu())
    return torch.cat(found)[torch.tensor(places).argsort()]


def attention_bits(call: AttentionCall, layout: TokenLayout) -> Tensor:
    """Mutual information of one attention call, text to visual tokens, head by head, added up: float64 [B]."""
    last = layout.length - 1
    columns, slots = layout.visual_index.clamp(max=last), layout.is_visual_slot
    rows, present = layout.instruction_index.clamp(max=last), layout.has_instruction
    total = torch.zeros(layout.batch_size, dtype=torch.float64, device=columns.device)
    for head in range(call.query.shape[1]):
        weights = attention_weights(call.of_head(head), rows)[:, 0]  # [B, R, K]
        seen = weights.gather(-1, columns[:, None].expand(-1, rows.shape[1], -1)).masked_fill(~slots[:, None], 0.0)
        total += information(seen, present)
    return total


def information(weights: Tensor, present: Tensor | None = None) -> Tensor:
    """Mutual information in bits of rows and columns: weights [B, R, V] >= 0 -> float64 [B].

    A row is a distribution over columns once it is divided by its sum; rows are equally likely. present: bool [B, R], the
    rows that count; None for all. A row of zeros, which sees nothing of the columns, never counts.
    """
    given = weights.double()
    total = given.sum(-1)  # [B, R]
    given = given / total[..., None].clamp_min(TINY)  # p(column | row)
    share = ((total > 0) if present is None else present & (total > 0)).double()
    share = share / share.sum(-1, keepdim=True).clamp_min(1.0)  # p(row)
    column = (share[..., None] * given).sum(1, keepdim=True)  # p(column)
    each = given * (given.clamp_min(TINY).log2() - column.clamp_min(TINY).log2())
    return (share[..., None] * each).sum((-1, -2))
