"""Arithmetic on small arrays: numpy where they lie on the host, torch where they lie on a device.

An operation of numpy takes a third of the time that torch's takes to begin. On a device nothing is copied to the host, so
that nothing is synchronised. Code that serves both is written with what the two have in common: `@`, indexing,
`library.fmin` and so on.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

Numbers: TypeAlias = Any
"""An array of the host, or a tensor of a device."""
_ON_HOST = ["cpu"]


def is_on_host(device: torch.device) -> bool:
    """Whether arithmetic there is numpy's."""
    return device.type in _ON_HOST


def library_of(device: torch.device) -> Any:
    """`numpy` or `torch`."""
    return np if is_on_host(device) else torch


def as_numbers(values: Tensor) -> Numbers:
    """A tensor as what is computed with where it lies; it is not copied."""
    return values.numpy() if is_on_host(values.device) else values


@contextmanager
def all_on_devices() -> Iterator[None]:
    """The host counts as a device inside the block: what runs on other devices is run here, to be tested or counted."""
    before, _ON_HOST[:] = list(_ON_HOST), []
    try:
        yield
    finally:
        _ON_HOST[:] = before
