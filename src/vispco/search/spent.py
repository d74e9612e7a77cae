"""What a search has cost: FLOPs of the language model, counted by what they were spent on."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass
class Spent:
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

    def to_dict(self) -> dict[str, float]:
        return {**asdict(self), "total": self.total, "total_shared": self.total_shared}
