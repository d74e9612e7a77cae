"""`KeptTokens`: the tokens that a group of cache layers holds, with what decoding needs of them computed once per group.

After a pruned prefill the cache's layers fall into a few groups that hold the same tokens. What a decoding step needs to
know of a group (where its tokens stand in the model's mask) is computed once and then only made longer. A layer that uses the
keys of an earlier one (Gemma3n, Gemma4) must not see what was dropped in between: `ShownKeys` says which those are.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from vispco.core.indexing import take_tokens
from vispco.engine.compensation import with_bias
from vispco.engine.gather import Stage

_ROOM = 256
"""The number of columns for future tokens that are computed at a time."""


class KeptTokens:
    """Tokens that were kept, by their original position (slot).

    slots: int64 [B, n]. valid: bool [B, n], False for padding (fill); None if there is none.
    end: how many tokens had been seen when the last of these was stored; the next ones are `end`, `end + 1`, ...
    tail: how many of the last ones are known to be neighbours, and may be taken back.
    bias: float32 [B, n], what text adds to its logits for them (see `compensation`); None for nothing.
    """

    def __init__(
        self, slots: Tensor, valid: Tensor | None, end: int, tail: int = 0, bias: Tensor | None = None
    ) -> None:
        self.slots, self.valid, self.end, self.tail, self.bias = slots, valid, end, tail, bias
        self._columns: Tensor | None = None
        self._open: Tensor | None = None
        self._memo: dict[tuple[Any, ...], tuple[KeptTokens, Any]] = {}

    @property
    def number(self) -> int:
        return int(self.slots.shape[1])

    def entries(self, held: int, first: int = 0) -> tuple[Tensor, Tensor | None]:
        """Slot and validity of `held` entries from the first on, those that came later among them; [B, held]."""
        tail = first + held - self.number
        slots, valid = self.slots, self.valid
        if tail > 0:
            new = torch.arange(self.end, self.end + tail, device=slots.device).expand(slots.shape[0], -1)
            slots = torch.cat([slots, new], dim=1)
            valid = None if valid is None else torch.cat([valid, valid.new_ones(valid.shape[0], tail)], dim=1)
        if first or tail < 0:
            return slots[:, first : first + held], None if valid is None else valid[:, first : first + held]
        return slots, valid

    def biases(self, held: int, first: int = 0) -> Tensor | None:
        """The bias of the same entries, 0 for those that came later: [B, held]; None for nothing."""
        if self.bias is None:
            return None
        return functional.pad(self.bias, (0, max(0, first + held - self.number)))[:, first : first + held]

    def followed_by(self, new: KeptTokens, held: int, first: int = 0) -> KeptTokens:
        """`held` entries and then others. Computed once for all layers that share both."""
        if held == 0:
            return new

        def join() -> KeptTokens:
            slots, valid = self.entries(held, first)
            if valid is not None or new.valid is not None:
                valid = torch.ones_like(slots, dtype=torch.bool) if valid is None else valid
                more = torch.ones_like(new.slots, dtype=torch.bool) if new.valid is None else new.valid
                valid = torch.cat([valid, more], dim=1)
            bias = joined_bias(self.biases(held, first), slots, new.bias, new.slots)
            return KeptTokens(torch.cat([slots, new.slots], dim=1), valid, new.end, new.tail, bias)

        return self._once(("followed", held, first), join, new)

    def without(self, last: int) -> KeptTokens:
        """Without the last few, which must be among the tail."""
        number = self.number - last
        return self._changed(("without", last), lambda each: each[:, :number], forgotten=last)

    def select(self, index: Tensor) -> KeptTokens:
        """Other rows of the batch, as beam search asks for them; index [B']."""
        return self._changed(("select",), lambda each: each[index.to(each.device)], index)

    def repeated(self, times: int) -> KeptTokens:
        """Every row of the batch several times, one after the other."""
        return self._changed(("repeated", times), lambda each: each.repeat_interleave(times, dim=0))

    def to(self, device: torch.device) -> KeptTokens:
        """The same on a device."""
        return self if self.slots.device == device else self._changed(("to", device), lambda each: each.to(device))

    def nothing(self) -> KeptTokens:
        """None of them, for a layer that holds nothing yet."""
        return self._once(("nothing",), lambda: KeptTokens(self.slots[:, :0], None, 0))

    def _changed(
        self, key: tuple[Any, ...], change: Callable[[Tensor], Tensor], about: object = None, *, forgotten: int = 0
    ) -> KeptTokens:
        """The same with all tensors changed alike."""

        def make() -> KeptTokens:
            valid, bias = (None if each is None else change(each) for each in (self.valid, self.bias))
            return KeptTokens(change(self.slots), valid, self.end - forgotten, self.tail - forgotten, bias)

        return self._once(key, make, about)

    def columns(self, number: int, first: int = 0) -> Tensor:
        """Where `number` entries stand in a mask with one closed column in front: int64 [B, 1, 1, number].

        Padding stands at the closed (masked) column.
        """
        if self._columns is None or self._columns.shape[-1] < first + number:
            slots, valid = self.entries(first + number + _ROOM)
            columns = slots + 1 if valid is None else (slots + 1) * valid
            self._columns = columns[:, None, None]
        return self._columns[..., first : first + number]

    def open(self, number: int, first: int = 0, dtype: torch.dtype = torch.float32) -> Tensor | None:
        """Which of `number` entries are not padding (fill): bool [B, 1, 1, number], or additive where there is a bias.

        None if there is neither.
        """
        if self.valid is None and self.bias is None:
            return None
        if self._open is None or self._open.shape[-1] < first + number:
            slots, valid = self.entries(first + number + _ROOM)
            bias = self.biases(first + number + _ROOM)
            opened = torch.ones_like(slots, dtype=torch.bool) if valid is None else valid
            opened = opened[:, None, None]
            self._open = opened if bias is None else with_bias(opened, bias, None, dtype)
        return self._open[..., first : first + number]

    def _once(self, key: tuple[Any, ...], make: Callable[[], KeptTokens], about: object = None) -> KeptTokens:
        """Make once for each key and this very object: layers that hold the same tokens share what was made."""
        found = self._memo.get(key)
        if found is None or found[1] is not about:
            found = self._memo[key] = (make(), about)
        return found[0]


def joined_bias(first: Tensor | None, slots: Tensor, second: Tensor | None, new: Tensor) -> Tensor | None:
    """The bias of entries [B, n] and then others [B, m]: [B, n + m]; None where neither has one."""
    if first is None and second is None:
        return None
    zeros = (torch.zeros_like(each, dtype=torch.float32) for each in (slots, new))
    return torch.cat([zero if own is None else own for own, zero in zip((first, second), zeros, strict=True)], dim=1)


def cut_columns(mask: Tensor, columns: Tensor) -> Tensor:
    """Columns [B, 1, 1, n] of a mask [B or 1, 1, Q, K] or [B or 1, K]: [B, 1, Q, n] or [B, n]."""
    columns, batch = columns.to(mask.device), columns.shape[0]
    if mask.shape[0] < batch:
        mask = mask.expand(batch, *mask.shape[1:])
    if mask.dim() == 2:
        return mask.gather(1, columns[:, 0, 0]).bool()
    return mask.gather(3, columns if mask.shape[2] == 1 else columns.expand(-1, -1, mask.shape[2], -1))


@dataclass(frozen=True, eq=False)
class ShownKeys:
    """The keys that a layer has in one pass, those of the cache first.

    stage: the tokens that it was handed. kept, first, number: what its cache says of them; None where it was never pruned.
    """

    stage: Stage | None
    kept: KeptTokens | None = None
    first: int = 0
    number: int = 0

    def entries(self, closed: SlotNotes | None) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Slot, validity and bias of every key, as a layer sees them that `closed` some."""
        assert self.kept is not None  # noqa: S101 - asked by the caller
        slots, valid = self.kept.entries(self.number, self.first)
        if closed is None:
            return slots, valid, self.kept.biases(self.number, self.first)
        known = closed.gone.shape[1]
        here, places = slots < known, slots.clamp(max=known - 1)
        gone = closed.gone.to(slots.device).gather(1, places) & here
        bias = None if closed.bias is None else closed.bias.to(slots.device).gather(1, places) * here
        return slots, ~gone if valid is None else valid & ~gone, bias


@dataclass(frozen=True, eq=False)
class SlotNotes:
    """Notes on a prompt's slots for a layer that uses the keys of an earlier one.

    gone: bool [B, n], those that it does not see. bias: float32 [B, n], what text adds to its logits for them; None for nothing.
    """

    gone: Tensor
    bias: Tensor | None = None

    @classmethod
    def of(cls, stage: Stage, length: int, bias: Tensor | None) -> SlotNotes:
        """The notes on a stage of a prompt; bias: [B, M], of its tokens."""
        places, shape = stage.positions, (len(stage.positions), length)
        padding = torch.zeros_like(places, dtype=torch.bool) if stage.valid is None else ~stage.valid
        gone = torch.ones(shape, dtype=torch.bool, device=places.device).scatter(1, places, padding)
        if bias is not None:
            bias = torch.zeros(shape, device=places.device).scatter(1, places, bias)
        return cls(gone, bias)

    def select(self, index: Tensor) -> SlotNotes:
        """Other rows of the batch."""
        places = index.to(self.gone.device)
        return SlotNotes(self.gone[places], None if self.bias is None else self.bias[places])

    def repeated(self, times: int) -> SlotNotes:
        """Every row of the batch several times, one after the other."""
        bias = None if self.bias is None else self.bias.repeat_interleave(times, dim=0)
        return SlotNotes(self.gone.repeat_interleave(times, dim=0), bias)


def cut_shared(shared: Any, local: Tensor) -> None:
    """Cut keys and values [B, H, M, d] that wait for later layers to the tokens `local` [B, M']."""
    if isinstance(shared, MutableMapping):
        for name, states in shared.items():
            shared[name] = tuple(take_tokens(x.transpose(1, 2), local).transpose(1, 2) for x in states)
