"""A training run on disk: tensors as safetensors, counters as JSON in the same file's header. Whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from vispco import files
from vispco.errors import InvalidInputError

NAME = "checkpoint.safetensors"


def save(folder: Path, tensors: Mapping[str, Tensor], counters: Mapping[str, Any]) -> Path:
    """Written under another name, forced to the disk, then renamed: a kill at any time leaves the old one or the new."""
    target = folder / NAME
    copies = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    with files.replacing(target) as temporary:
        save_file(copies, temporary, {"counters": json.dumps(dict(counters))})
    return target


def load(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """The last checkpoint of a folder: tensors and counters; None if there is none."""
    target = folder / NAME
    if not target.is_file():
        return None
    try:
        with safe_open(target, framework="pt") as file:
            counters: dict[str, Any] = json.loads((file.metadata() or {}).get("counters", "{}"))
            return {name: file.get_tensor(name) for name in file.keys()}, counters  # noqa: SIM118
    except (SafetensorError, json.JSONDecodeError) as error:
        raise InvalidInputError(
            f"The checkpoint {target} cannot be read: {error}. Delete it to begin again, or restore it."
        ) from error


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
