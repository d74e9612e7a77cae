"""A checkpoint: one safetensors file whose header holds a state as JSON and the checksum of all of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError, safe_open

from vispco.core.runs import files

if TYPE_CHECKING:
    from torch import Tensor

_STATE, _CHECKSUM = "state", "checksum"


def save_checkpoint(path: Path, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> Path:
    """Write a checkpoint: a kill at any time leaves the old one or the new one."""
    from safetensors.torch import save_file  # noqa: PLC0415 - imports torch

    copies = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    text = json.dumps(dict(state))
    with files.replacing(path) as temporary:
        save_file(copies, temporary, {_STATE: text, _CHECKSUM: _digest(copies, text)})
    return path


def load_checkpoint(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the state of a checkpoint; a damaged one is refused by name."""
    if not files.is_file(path):
        raise files.FileReadError(f"The checkpoint {path} cannot be read: there is no regular file.")
    try:
        with safe_open(Path(path), framework="pt") as file:
            header = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        text = header.get(_STATE, "{}")
        state = json.loads(text)
    except (SafetensorError, OSError, ValueError, RecursionError, KeyError) as error:
        raise files.DamagedFileError(
            f"The checkpoint {path} cannot be read ({error}). Restore it, or delete it to start again."
        ) from error
    if _CHECKSUM in header and header[_CHECKSUM] != _digest(tensors, text):
        raise files.DamagedFileError(
            f"The checkpoint {path} is damaged: its checksum is not that of its content. Restore it, or delete it to "
            "start again."
        )
    if not isinstance(state, dict):
        raise files.DamagedFileError(f"The checkpoint {path} is damaged: it has no state. Delete it to start again.")
    return tensors, state


def _digest(tensors: Mapping[str, Tensor], state: str) -> str:
    """One checksum of named tensors on the host, their shapes and types, and of the state."""
    from torch import uint8  # noqa: PLC0415 - seconds of import, which commands without tensors do not need

    found = hashlib.sha256(state.encode())
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        found.update(f"\0{name}\0{tensor.dtype}\0{tuple(tensor.shape)}\0".encode())
        found.update(tensor.reshape(-1).view(uint8).numpy().data)
    return f"sha256:{found.hexdigest()}"
