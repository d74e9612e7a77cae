"""Attention as scorers read it before a layer, from recorded attention calls or from a probe of the next layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from vispco.core.errors import InvalidInputError, UnsupportedModelError
from vispco.core.indexing import take, token_index
from vispco.engine.attention import AttentionCall
from vispco.engine.gather import Places, spread
from vispco.engine.rows import attention_logits, attention_weights, received_attention
from vispco.scorers.context import Heads, Of, Rows

if TYPE_CHECKING:
    from vispco.engine.passes import PruningPass


@dataclass(frozen=True, eq=False)
class _SeenCall:
    """An attention call and who took part: live bool [B, V]; columns int64 [B, V], the places of the visual slots."""

    call: AttentionCall
    places: Places
    live: Tensor
    columns: Tensor
    hidden_keys: Tensor | None

    @property
    def width(self) -> int:
        """Tokens of this pass in the call."""
        return int(self.call.query.shape[2])


class AttentionReader:
    """The `AttentionSource` of one choice."""

    def __init__(self, state: PruningPass) -> None:
        self.state, self.layout = state, state.layout
        self.probed: dict[bool, AttentionCall] = {}  # with and without rotary embeddings

    def attention(self, rows: Rows, heads: Heads, weights: Tensor | None, of: Of, *, rotary: bool) -> Tensor:
        """See `ScoringContext.attention`."""
        if of not in ("before", "entering") or (of == "before" and not rotary):
            raise InvalidInputError(
                f"of={of!r}, rotary={rotary} was asked for. Attention is of the layer 'before', as it was computed, or of "
                "the layer that is 'entering', with or without rotary embeddings."
            )
        seen = self.before() if of == "before" else self.entering(rotary=rotary)
        index, present, weights = self._rows(rows, weights, seen.places)
        at_end = rows == "last" and self.layout.query_is_last
        index = index if rows == "last" else index.clamp(max=seen.width - 1)  # the query never leaves
        given = {"present": present, "weights": weights, "hidden_keys": seen.hidden_keys}
        found = received_attention(seen.call, index, seen.columns, heads, **given, at_end=at_end)
        return found.to(self.state.live.device)  # layers may be spread over devices; choices stay with the inputs

    def attention_table(self) -> Tensor:
        """See `ScoringContext.attention_table`."""
        seen = self.before()
        device = seen.call.key.device
        index, present, _ = self._rows("text", None, seen.places)
        weights = attention_weights(seen.call, index.clamp(max=seen.width - 1).to(device), seen.hidden_keys)
        table = weights.mean(1)[..., -seen.width :]  # [B, R, M]
        table = table.gather(2, seen.columns.to(device)[:, None].expand(-1, table.shape[1], -1))
        if present is not None:
            table = table * present.to(table.device)[..., None]
        return table.to(self.state.live.device)

    def keys(self, rows: Literal["text", "visual"]) -> Tensor:
        """See `ScoringContext.keys`."""
        seen = self.before()
        keys = seen.call.key[:, :, -seen.width :].transpose(1, 2)  # [B, M, H_kv, d], of this pass
        places = self._rows("text", None, seen.places)[0] if rows == "text" else seen.columns
        return take(keys, places.clamp(max=seen.width - 1).to(keys.device)).to(self.state.live.device)

    def attention_flow(self, steps: int, temperature: float) -> Tensor:
        """See `ScoringContext.attention_flow`."""
        seen = self.before()
        call, width = seen.call, seen.width
        batch, heads = call.query.shape[:2]
        # the tokens that take part in the call, text and visual: bool [B, M]
        there = spread(seen.live, self.layout.visual_index, self.layout.real & ~self.layout.visual)
        everywhere = torch.arange(self.layout.length, device=there.device).expand_as(there)
        room = torch.zeros(batch, width + 1, dtype=torch.bool, device=there.device)
        present = room.scatter(1, seen.places(everywhere).clamp(max=width), there)[:, :width].to(call.query.device)
        start = present.float() / present.sum(-1, keepdim=True).clamp(min=1)
        rows = torch.arange(width, device=call.query.device).expand(batch, -1)
        lowest = torch.finfo(torch.float32).min
        total = torch.zeros_like(start, dtype=torch.float64)  # squares of small shares
        for head in range(heads):
            logits = attention_logits(call.of_head(head), rows, seen.hidden_keys)[:, 0] / temperature  # [B, M, K]
            passed_on = logits.clamp(min=lowest).softmax(-1)[..., -width:]
            share = start[:, None]
            for _ in range(steps):
                share = share @ passed_on
            total += share[:, 0].double() ** 2
        found = (total / heads).sqrt().float()
        return found.gather(1, seen.columns.to(found.device)).to(self.state.live.device)

    def before(self) -> _SeenCall:
        """The call of the layer before (the last one that has attention)."""
        state = self.state
        if state.call is None:
            raise UnsupportedModelError(
                "The layer before has not called transformers' attention function, so its attention cannot be read. Use "
                "scorers that need no attention, such as 'random', at this depth."
            )
        return self._seen(state.call, state.call_places, state.call_live)

    def entering(self, *, rotary: bool) -> _SeenCall:
        """The call that the layer about to be entered would make on all tokens that are there."""
        if rotary not in self.probed:
            self.probed[rotary] = self._probe(rotary=rotary)
        return self._seen(self.probed[rotary], self.state.places, self.state.live)

    def _seen(self, call: AttentionCall, places: Places, live: Tensor) -> _SeenCall:
        if places.stage is None and call.query.shape[2] == self.layout.length:  # nothing left before
            columns = self.layout.visual_columns
        else:
            columns = places(self.layout.visual_index).clamp(max=call.query.shape[2] - 1)
        return _SeenCall(call, places, live, columns, self.state.hidden_keys(live))

    def _probe(self, *, rotary: bool) -> AttentionCall:
        entry, probe = self.state.entry, self.state.probe
        if entry is None or probe is None:
            raise InvalidInputError(
                "A scorer whose tokens leave mid-layer cannot read the layer that they would enter next."
            )
        layer, hidden, arguments = entry
        arguments = self.state.arguments_now(layer, arguments)
        cache = arguments.get("past_key_values")
        arguments = {**arguments, "past_key_values": None}  # the real run fills the cache
        if not rotary:
            if arguments.get("position_embeddings") is None:
                raise UnsupportedModelError(
                    "This model gives its layers no rotary embeddings, so they cannot be left out of attention. Use a scorer "
                    "of attention as it is, such as 'pyramiddrop'."
                )
            cos, sin = arguments["position_embeddings"]
            arguments["position_embeddings"] = (torch.ones_like(cos), torch.zeros_like(sin))
        call = self.state.compensated(probe(layer, hidden, arguments))
        held = cache.layers[layer].keys if cache is not None and layer < len(cache.layers) else None
        if held is not None and held.numel():
            if rotary:
                call.key = torch.cat([held, call.key], dim=2)
            elif call.mask is not None:  # what the cache holds is rotated: only the tokens of this pass are compared
                call.mask = call.mask[..., -call.key.shape[2] :]
        return call

    def _rows(self, rows: Rows, weights: Tensor | None, places: Places) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Places of the rows in a call, int64 [B, R]; which of them are there; and the weights in their order."""
        state, layout = self.state, self.layout
        if rows == "last":
            return places(layout.query_column), None, weights
        if rows == "after-image":
            return places(layout.after_image[:, None]), None, weights
        if rows == "text":
            return places(layout.instruction_index), layout.has_instruction, weights
        if rows == "visual":  # the live slots, packed: [B, n] with n the largest count
            columns, last = places(layout.visual_index), state.live.shape[1]
            slots = token_index(last, state.live.device).expand_as(state.live)
            slots = slots.masked_fill(~state.live, last).sort(-1).values[:, : state.most_live]
            present, slots = slots < last, slots.clamp(max=last - 1)
            return columns.gather(1, slots), present, None if weights is None else weights.gather(1, slots)
        raise InvalidInputError(f"rows={rows!r} was asked for. Rows are 'last', 'text', 'visual' or 'after-image'.")
