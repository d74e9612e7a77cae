"""The attention that each visual token receives in each layer of the unpruned model, from text and from the image.

It takes one forward pass per batch, without a pruner. The engine's reader reads the rows in blocks, as for a scorer, so that
no N x N map is ever in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from vispco.engine.rows import AttentionReader, check_readable
from vispco.families import family_of
from vispco.layout import TokenLayout


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


class AttentionProbe:
    """Hooks that read the attention of every layer in a forward pass."""

    def __init__(self, model: Any) -> None:
        family = family_of(model)
        self.modules = [family.attention(layer) for layer in family.layers(model)]
        for module in self.modules:
            check_readable(module)
        self.read: list[tuple[Tensor, Tensor]] = []
        self._captured: dict[str, Tensor] = {}

    @contextmanager
    def reading(self, layout: TokenLayout) -> Iterator[None]:
        """A forward pass of the batch with this layout inside the block fills `read`: one (cross, own) per layer."""
        self.read = []

        def attended(module: nn.Module, _: Any, kwargs: dict[str, Any], __: Any) -> None:
            captured = self._captured
            reader = AttentionReader(
                module,
                captured.pop("q_proj"),
                captured.pop("k_proj"),
                kwargs["position_embeddings"],
                kwargs.get("attention_mask"),
            )
            self.read.append(received(reader, layout))

        with ExitStack() as stack:
            for module in self.modules:
                for name in ("q_proj", "k_proj"):
                    projection: nn.Module = getattr(module, name)
                    stack.callback(projection.register_forward_hook(self._capture(name)).remove)
                stack.callback(module.register_forward_hook(attended, with_kwargs=True).remove)
            yield

    def _capture(self, name: str) -> Any:
        def hook(_: nn.Module, __: Any, output: Tensor) -> None:
            self._captured[name] = output

        return hook


def received(reader: AttentionReader, layout: TokenLayout) -> tuple[Tensor, Tensor]:
    """Return the attention that visual tokens receive from text (sum) and from each other (mean): float32 [B, V] each."""
    last = layout.length - 1
    columns, slots = layout.visual_index.clamp(max=last), layout.is_visual_slot
    text = layout.instruction_index
    cross = reader.mass(text.clamp(max=last), columns, heads="max", weights=None, present=text <= last)
    own = reader.mass(columns, columns, heads="max", weights=None, present=slots)
    own = own / slots.sum(-1, keepdim=True).clamp(min=1)
    return cross.masked_fill(~slots, 0.0), own.masked_fill(~slots, 0.0)


@torch.no_grad()
def read_received_attention(evaluator: Any) -> ReceivedAttention:
    """Read the attention on the prompts of all samples of a `TaskEvaluator`, in its order."""
    model, store = evaluator.model, evaluator.store
    probe = AttentionProbe(model)
    places: list[int] = []
    rows: list[Tensor] = []
    parts: dict[str, list[Tensor]] = {"cross": [], "own": [], "present": []}
    for batch in evaluator.batches:
        encoded = store.encode(batch.samples)
        layout = family_of(model).layout(model, encoded.inputs)
        with probe.reading(layout):
            model(**encoded.inputs, use_cache=False, logits_to_keep=1)
        places += batch.rows
        rows += (layout.instruction_index < layout.length).sum(-1).cpu().unbind()
        cross, own = zip(*probe.read, strict=True)
        parts["cross"] += torch.stack(cross, dim=1).cpu().unbind()  # B of [L, V]
        parts["own"] += torch.stack(own, dim=1).cpu().unbind()
        parts["present"] += layout.is_visual_slot.cpu().unbind()
    order = torch.tensor(places).argsort()
    width = max(slots.shape[0] for slots in parts["present"])

    def joined(name: str) -> Tensor:
        return torch.stack([nn.functional.pad(part, (0, width - part.shape[-1])) for part in parts[name]])[order]

    return ReceivedAttention(joined("cross"), joined("own"), joined("present"), torch.stack(rows)[order])
