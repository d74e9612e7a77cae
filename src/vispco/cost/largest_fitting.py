"""The largest number that fits, for many samples at once: a search that tests several candidates per step."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from vispco.cost.host import Array, as_array, largest_count, largest_number

Fits = Callable[[Tensor], Tensor]
"""Candidates [C, B] -> bool [C, B]; true up to some candidate and false behind it."""


def largest_fitting(fits: Fits, low: Tensor, high: Tensor, *, bits: int = 45) -> Tensor:
    """The largest x in [low, high] with fits(x), to (high - low) / 2^bits: low, high [B] -> [B]. `low` must fit."""
    # A step on a small tensor has a fixed price, so few samples are halved 5 or 3 times in one step. Every way visits the
    # same binary fractions (5 and 3 divide `bits`), so that a sample's result does not depend on its batch.
    return _on_host(lambda test, *ends: largest_number(test, *ends, bits=bits), fits, low, high)


def largest_whole(fits: Fits, most: Tensor, *, parts: int = 16) -> Tensor:
    """The largest integer in [0, most] that fits: most [B], int64 -> [B]. 0 must fit."""
    return _on_host(lambda test, end: largest_count(test, end, parts=parts), fits, most)


def _on_host(search: Callable[..., Array], fits: Fits, *ends: Tensor) -> Tensor:
    device = ends[0].device

    def test(candidates: Array) -> Array:
        return as_array(fits(torch.from_numpy(candidates).to(device)))

    return torch.from_numpy(np.asarray(search(test, *map(as_array, ends)))).to(device)
