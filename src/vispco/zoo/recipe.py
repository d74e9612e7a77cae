"""How each model is trained: every number of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from vispco.errors import UnknownNameError


@dataclass(frozen=True, slots=True)
class Recipe:
    """Steps in three stretches: the tower alone on dense labels, everything at full rate, the rate down to zero."""

    steps: int
    warmup: int  # steps of the vision tower alone
    warmup_pictures: int = 32
    pictures: int = 16  # per step
    questions: int = 10  # packed on each picture
    ramp: int = 1200  # steps until the scenes are as full as in the test set
    rate: float = 3e-3
    decay: float = 0.3  # last share of the steps, in which the rate falls to zero
    dense: float = 0.5  # weight of the dense labels beside the answers
    clip: float = 1.0

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def rate_at(self, step: int) -> float:
        falling = self.steps * self.decay
        return self.rate * min(1.0, (step + 1) / 100, max(0.0, (self.steps - step) / falling))

    def difficulty_at(self, step: int) -> float:
        if step < self.warmup:
            return min(1.0, step / max(1, self.warmup))
        return min(1.0, 0.1 + (step - self.warmup) / max(1, self.ramp))


RECIPES = {
    "tiny-qwen": Recipe(steps=5000, warmup=500),
    "tiny-llava": Recipe(steps=5000, warmup=500),
    "tiny-gemma": Recipe(steps=5000, warmup=500),
}


def recipe(name: str) -> Recipe:
    if name not in RECIPES:
        raise UnknownNameError("model", name, list(RECIPES))
    return RECIPES[name]
