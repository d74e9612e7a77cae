"""Picking other tokens of each sample with one operation."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor


@lru_cache(maxsize=64)
def batch_index(batch: int, device: torch.device) -> Tensor:
    """0, 1, ..., B - 1 as a column [B, 1]: with it one indexing picks other tokens of each sample."""
    with torch.inference_mode(mode=False):  # it outlives the pass, and may meet a gradient later
        return torch.arange(batch, device=device)[:, None]


@lru_cache(maxsize=64)
def token_index(length: int, device: torch.device) -> Tensor:
    """0, 1, ..., N - 1: [N]."""
    with torch.inference_mode(mode=False):
        return torch.arange(length, device=device)


def take(x: Tensor, index: Tensor) -> Tensor:
    """Rows `index` [B, M] of x [B or 1, N, ...]."""
    if x.shape[0] < index.shape[0]:
        return x[0][index]
    return x[batch_index(index.shape[0], x.device), index]
