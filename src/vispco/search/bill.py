"""What a search costs: FLOPs of the language model, counted by what they were spent on, and memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import torch

from vispco.cost import Dimensions
from vispco.evaluation.caches import GIB

_MEMORY_TABLE = Path("/proc/meminfo")
_STATES = 6  # of the hidden size, alive at once inside a layer


@dataclass
class FlopsBill:
    """Language-model FLOPs. A backward pass counts as two forward passes.

    shared: what the measured passes come to if unpruned first layers are taken from the teacher's pass, for comparisons
    with searches that do so too. It is another reading of `measured`, not a part of the total.
    """

    teacher: float = 0.0
    forward: float = 0.0
    backward: float = 0.0
    measured: float = 0.0  # pruned passes without a gradient: exploration, tables, final choices
    shared: float = 0.0

    @property
    def total(self) -> float:
        return self.teacher + self.forward + self.backward + self.measured

    @property
    def total_shared(self) -> float:
        return self.teacher + self.forward + self.backward + self.shared

    def add(self, other: Mapping[str, float], sign: int = 1) -> None:
        """Add another bill, or subtract it (sign=-1)."""
        for part in fields(self):
            setattr(self, part.name, getattr(self, part.name) + sign * other[part.name])

    @classmethod
    def from_dict(cls, data: Mapping[str, float]) -> FlopsBill:
        """From `to_dict`; keys that a newer version added are ignored."""
        return cls(**{part.name: data[part.name] for part in fields(cls) if part.name in data})

    def to_dict(self) -> dict[str, float]:
        return {**asdict(self), "total": self.total, "total_shared": self.total_shared}


def sample_bytes(size: Dimensions, tokens: int, answer: int) -> int:
    """What one sample of a batch takes in an unpruned pass, at most: a layer's states, and the logits of its answer twice."""
    layer = _STATES * size.hidden + 2 * size.ffn + (size.heads + 2 * size.kv_heads) * size.head_dim
    return tokens * layer * size.dtype_bytes + 2 * answer * size.vocab * (size.dtype_bytes + 4)


def free_memory(device: torch.device) -> int:
    """Bytes that a device has free; 8 GiB where it does not say."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    lines = _MEMORY_TABLE.read_text().splitlines() if _MEMORY_TABLE.is_file() else []
    found = [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable")]
    return found[0] if found else 8 * GIB
