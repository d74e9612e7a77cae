"""Layers that use the keys and values of an earlier layer (Gemma3n, Gemma4) must not see what was dropped in between."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from vispco.engine.gather import Stage
from vispco.engine.kept import KeptTokens
from vispco.engine.per_token import take_tokens


@dataclass(frozen=True, eq=False)
class ShownKeys:
    """The keys that a layer has in one pass, those of the cache first.

    stage: the tokens that it was handed. kept, first, number: what its cache says of them; None where it was never pruned.
    """

    stage: Stage | None
    kept: KeptTokens | None = None
    first: int = 0
    number: int = 0

    def entries(self, closed: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Slot and validity of every key, without those that are closed (bool [B, n], by slot)."""
        assert self.kept is not None  # noqa: S101 - asked by the caller
        slots, valid = self.kept.entries(self.number, self.first)
        if closed is None:
            return slots, valid
        known = closed.shape[1]
        gone = closed.to(slots.device).gather(1, slots.clamp(max=known - 1)) & (slots < known)
        return slots, ~gone if valid is None else valid & ~gone


def closed_slots(stage: Stage, length: int) -> Tensor:
    """The slots of a prompt that a stage has not: bool [B, length]."""
    batch, device = stage.positions.shape[0], stage.positions.device
    here = torch.ones_like(stage.positions, dtype=torch.bool) if stage.valid is None else stage.valid
    return ~torch.zeros(batch, length, dtype=torch.bool, device=device).scatter(1, stage.positions, here)


def cut_shared(shared: Any, local: Tensor) -> None:
    """Cut keys and values [B, H, M, d] that wait for later layers to the tokens `local` [B, M']."""
    if isinstance(shared, MutableMapping):
        for name, states in shared.items():
            shared[name] = tuple(take_tokens(x.transpose(1, 2), local).transpose(1, 2) for x in states)
