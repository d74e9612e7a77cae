"""Gathering tokens by an index per sample, from tensors of any shape that has a token axis."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
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


def token_axis(x: Tensor, batch: int, length: int) -> int | None:
    """The axis of x that counts tokens: the one after the batch's (B or 1), or the first; None if there is none."""
    for axis in range(1, x.dim()):
        if x.shape[axis] == length and x.shape[axis - 1] in (batch, 1):
            return axis
    return 0 if x.dim() and x.shape[0] == length and batch == 1 else None


def take_tokens(x: Tensor, index: Tensor, axis: int = 1) -> Tensor:
    """The tokens `index` [B, M] of x, whose token axis is `axis` with the batch just before it."""
    index = index.to(x.device)
    if axis == 1:
        return take(x, index)
    if axis == 0:
        return x[index[0]]
    moved = x.movedim((axis - 1, axis), (0, 1))
    return take(moved, index).movedim((0, 1), (axis - 1, axis))


def cut_tokens(value: Any, index: Tensor, batch: int, length: int) -> Any:
    """Any argument of a layer, cut to the tokens `index` [B, M] wherever its shape says that it is one value a token."""
    if isinstance(value, Tensor):
        axis = token_axis(value, batch, length)
        return value if axis is None else take_tokens(value, index, axis)
    if isinstance(value, tuple | list):
        return type(value)(cut_tokens(part, index, batch, length) for part in value)
    if isinstance(value, Mapping) and type(value) is dict:
        return {key: cut_tokens(part, index, batch, length) for key, part in value.items()}
    return value


def runs_of(mask: np.ndarray[Any, Any]) -> list[tuple[int, int, int]]:
    """(row, start, end) of each run of neighbouring marked tokens, row after row: bool [B, N]."""
    edges = np.diff(np.pad(mask.astype(np.int8), ((0, 0), (1, 1))), axis=1)
    starts, ends = (np.argwhere(edges == change) for change in (1, -1))
    return [(int(row), int(start), int(end)) for (row, start), (_, end) in zip(starts, ends, strict=True)]


def packed(mask: np.ndarray[Any, Any], width: int) -> np.ndarray[Any, Any]:
    """Positions of the marked tokens of each row, in order: bool [B, N] -> int64 [B, width], padded with N."""
    length, numbers = mask.shape[1], mask.sum(axis=1)
    if (numbers == width).all():
        return np.nonzero(mask)[1].reshape(len(mask), width)
    order = np.argsort(~mask, axis=1, kind="stable")[:, :width]
    found = np.full((len(mask), width), length, dtype=np.int64)
    found[:, : order.shape[1]] = np.where(np.arange(order.shape[1]) < numbers[:, None], order, length)
    return found
