"""The checkpoint of a training by gradient, in its folder; and an optimizer's state as named tensors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vispco.core.runs.checkpoint_file import load_checkpoint, save_checkpoint

NAME = "checkpoint.safetensors"


def save(folder: Path, tensors: Mapping[str, Tensor], counters: Mapping[str, Any]) -> Path:
    """Written under another name, forced to the disk, then renamed: a kill at any time leaves the old one or the new."""
    return save_checkpoint(folder / NAME, tensors, counters)


def load(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """The last checkpoint of a folder: tensors and counters; None if there is none."""
    return load_checkpoint(folder / NAME) if (folder / NAME).is_file() else None


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The state of an optimizer as named tensors."""
    state = optimizer.state_dict()["state"]
    return {f"{index}.{key}": torch.as_tensor(value) for index, part in state.items() for key, value in part.items()}


def load_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        index, key = name.split(".", 1)
        state.setdefault(int(index), {})[key] = tensor
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
