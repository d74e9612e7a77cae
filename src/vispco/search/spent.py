"""What a search has cost: FLOPs of the language model, counted by what they were spent on."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass
class Spent:
    """Language-model FLOPs. A backward pass counts as two forward passes."""

    teacher: float = 0.0
    forward: float = 0.0
    backward: float = 0.0
    measured: float = 0.0  # pruned passes without a gradient: exploration, tables, final choices

    @property
    def total(self) -> float:
        return self.teacher + self.forward + self.backward + self.measured

    def to_dict(self) -> dict[str, float]:
        return {**asdict(self), "total": self.total}
