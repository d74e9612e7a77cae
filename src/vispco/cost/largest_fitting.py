"""The largest number that fits, for many samples at once: a search that tests several candidates per step."""

from collections.abc import Callable

import torch
from torch import Tensor

Fits = Callable[[Tensor], Tensor]
"""Candidates [C, B] -> bool [C, B]; true up to some candidate and false behind it."""


def largest_fitting(fits: Fits, low: Tensor, high: Tensor, *, bits: int = 45) -> Tensor:
    """The largest x in [low, high] with fits(x), to (high - low) / 2^bits: low, high [B] -> [B]. `low` must fit."""
    # A step on a small tensor has a fixed price, so few samples are halved 5 or 3 times in one step. Every way visits the
    # same binary fractions (5 and 3 divide `bits`), so that a sample's result does not depend on its batch.
    at_once = 5 if low.numel() <= 32 else 3 if low.numel() <= 256 else 1
    parts = 2**at_once
    share = torch.arange(1, parts + 1, dtype=low.dtype, device=low.device).reshape(-1, *[1] * low.ndim) / parts
    for _ in range(bits // at_once):
        candidates = low + (high - low) * share
        fitting = _leading(fits(candidates))[None]
        edges = torch.cat([low[None], candidates, high[None]])
        low, high = edges.gather(0, fitting)[0], edges.gather(0, fitting + 1)[0]
    return low


def largest_whole(fits: Fits, most: Tensor, *, parts: int = 16) -> Tensor:
    """The largest integer in [0, most] that fits: most [B], int64 -> [B]. 0 must fit."""
    low, high = torch.zeros_like(most), most
    share = torch.arange(1, parts + 1, device=most.device).reshape(-1, *[1] * most.ndim)
    while bool((low < high).any()):
        candidates = low + ((high - low) * share + parts - 1) // parts  # grow to `high`, all above `low`
        fitting = _leading(fits(candidates))[None]
        edges = torch.cat([low[None], candidates, high[None] + 1])
        low, high = edges.gather(0, fitting)[0], edges.gather(0, fitting + 1)[0] - 1
    return low


def _leading(fitting: Tensor) -> Tensor:
    """How many candidates fit before the first that does not: bool [C, B] -> int64 [B]."""
    return fitting.long().cumprod(dim=0).sum(dim=0)
