"""What a search has cost: FLOPs of the language model, counted by what they were spent on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields


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
