"""The attention that each visual token receives in each layer of the unpruned model, from text and from the image.

It takes one forward pass per batch, without a pruner. The engine's reader reads the rows in blocks, as for a scorer, so that
no N x N map is ever in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from vispco.core.layout import TokenLayout
from vispco.engine import attention_calls
from vispco.engine.attention import AttentionCall
from vispco.engine.rows import RowRequest, received_attention
from vispco.families import family_of


@dataclass(frozen=True, eq=False)
class ReceivedAttention:
    """For S samples and V visual slots (the largest count). Each row takes the maximum over heads, as FitPrune does.

    cross: [S, L, V], the sum over the instruction tokens that can see the image. own: [S, L, V], the mean over the visual
    tokens. present: bool [S, V], the slots that hold a token. rows: int64 [S], how many text rows were summed.
    """

    cross: Tensor
    own: Tensor
    present: Tensor
    rows: Tensor


@contextmanager
def reading_attention(model: Any, layout: TokenLayout) -> Iterator[list[tuple[Tensor, Tensor]]]:
    """A list that gets (cross, own) of each layer in a forward pass of the batch with this layout; see `received`."""
    read: list[tuple[Tensor, Tensor]] = []
    with attention_calls(model, lambda _, call: read.append(received(call, layout))):
        yield read


def received(call: AttentionCall, layout: TokenLayout) -> tuple[Tensor, Tensor]:
    """Return the attention that visual tokens receive from text (sum) and from each other (mean): float32 [B, V] each."""
    last = layout.length - 1
    columns, slots = layout.visual_index.clamp(max=last), layout.is_visual_slot
    text = layout.instruction_index
    cross = received_attention(call, RowRequest(text.clamp(max=last), columns, "max", present=text <= last))
    own = received_attention(call, RowRequest(columns, columns, "max", present=slots))
    own = own / slots.sum(-1, keepdim=True).clamp(min=1)
    return cross.masked_fill(~slots, 0.0), own.masked_fill(~slots, 0.0)


@torch.no_grad()
def read_received_attention(evaluator: Any) -> ReceivedAttention:
    """Read the attention on the prompts of all samples of a `TaskEvaluator`, in its order."""
    model, store = evaluator.model, evaluator.store
    places: list[int] = []
    rows: list[Tensor] = []
    parts: dict[str, list[Tensor]] = {"cross": [], "own": [], "present": []}
    for batch in evaluator.batches:
        encoded = store.encode(batch.samples)
        layout = family_of(model).layout(model, encoded.inputs)
        with reading_attention(model, layout) as read:
            model(**encoded.inputs, use_cache=False, logits_to_keep=1)
        places += batch.rows
        rows += (layout.instruction_index < layout.length).sum(-1).cpu().unbind()
        cross, own = zip(*read, strict=True)
        parts["cross"] += torch.stack(cross, dim=1).cpu().unbind()  # B of [L, V]
        parts["own"] += torch.stack(own, dim=1).cpu().unbind()
        parts["present"] += layout.is_visual_slot.cpu().unbind()
    order = torch.tensor(places).argsort()
    width = max(slots.shape[0] for slots in parts["present"])

    def joined(name: str) -> Tensor:
        return torch.stack([nn.functional.pad(part, (0, width - part.shape[-1])) for part in parts[name]])[order]

    return ReceivedAttention(joined("cross"), joined("own"), joined("present"), torch.stack(rows)[order])
