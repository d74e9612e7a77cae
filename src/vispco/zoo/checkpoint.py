"""A training run on disk: one safetensors file with the weights, the optimizer and, in its header, the counters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from vispco import files
from vispco.errors import VispcoError

if TYPE_CHECKING:
    from torch import Tensor


def save(path: Path, tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
    """Whole or not at all: written under another name, then renamed."""
    contiguous = {name: tensor.contiguous() for name, tensor in tensors.items()}
    with files.replacing(path) as temporary:
        save_file(contiguous, temporary, {"state": json.dumps(state)})


def load(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    try:
        with safe_open(Path(path), framework="pt") as file:
            state = json.loads((file.metadata() or {}).get("state", "{}"))
            return {name: file.get_tensor(name) for name in file.keys()}, state  # noqa: SIM118
    except (SafetensorError, json.JSONDecodeError) as error:
        raise VispcoError(f"The checkpoint {path} cannot be read ({error}). Delete it to start again.") from error
