"""The progress of a training run: counters, and smoothed losses and accuracies."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from vispco.data.dataset import TASKS

SMOOTH = 0.97  # share of the old value in a moving average


@dataclass
class TrainingProgress:
    """Counters of a run, and its smoothed losses and accuracies."""

    step: int = 0
    seconds: float = 0.0
    loss: float = 0.0  # of the answers
    dense: float = 0.0  # loss of the visual tokens' labels
    level: float = 0.1  # density of the scenes, 0 to 1
    accuracy: dict[str, float] = field(default_factory=lambda: dict.fromkeys(TASKS, 0.0))
    seen: dict[str, float] = field(default_factory=dict)  # accuracy by field of the visual tokens' labels

    def blend(self, name: str, value: float) -> None:
        """Update a moving average; the first step sets it."""
        setattr(self, name, value if self.step == 0 else SMOOTH * getattr(self, name) + (1 - SMOOTH) * value)

    def describe(self) -> str:
        """Loss and accuracy by task in one line."""
        tasks = " ".join(f"{task[:5]} {100 * score:.0f}" for task, score in self.accuracy.items())
        return f"loss {self.loss:.2f} dense {self.dense:.2f} | {tasks}"

    def curve_entry(self) -> dict[str, Any]:
        """One line of the curve."""
        rounded = {name: round(value, 3) for name, value in self.accuracy.items()}
        return {
            "step": self.step,
            "seconds": round(self.seconds),
            "loss": round(self.loss, 4),
            "dense": round(self.dense, 4),
            "level": round(self.level, 2),
            "average": round(sum(rounded.values()) / len(rounded), 3),
            **rounded,
            "seen": {key: round(value, 2) for key, value in self.seen.items()},
        }
