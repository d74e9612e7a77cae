"""The largest number that fits, for many samples at once."""

from collections.abc import Callable

import torch
from torch import Tensor


def largest_fitting(fits: Callable[[Tensor], Tensor], low: Tensor, high: Tensor, *, bits: int = 45) -> Tensor:
    """The largest x in [low, high] with fits(x), to (high - low) / 2^bits: low, high [B] -> [B].

    fits: maps candidates [C, B] to booleans [C, B]; true up to some x and false behind it. `low` is taken to fit.
    """
    # A step on a small tensor has a fixed price, so few samples are halved 5 or 3 times in one step. Every way visits the
    # same binary fractions (5 and 3 divide `bits`), so that a sample's answer does not depend on its batch.
    at_once = 5 if low.numel() <= 32 else 3 if low.numel() <= 256 else 1
    parts = 2**at_once
    share = torch.arange(1, parts + 1, dtype=low.dtype, device=low.device).reshape(-1, *[1] * low.ndim) / parts
    for _ in range(bits // at_once):
        candidates = low + (high - low) * share
        fitting = (
            fits(candidates).long().cumprod(dim=0).sum(dim=0, keepdim=True)
        )  # those before the first that does not
        edges = torch.cat([low[None], candidates, high[None]])
        low, high = edges.gather(0, fitting)[0], edges.gather(0, fitting + 1)[0]
    return low
