"""How each model is trained: every number of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from vispco.errors import UnknownNameError


@dataclass(frozen=True, slots=True)
class Recipe:
    """Two stretches: the vision tower alone on dense labels, then the language model on what the tower sees.

    In the second, the tower goes on learning from the dense labels alone: with the answers' gradient in it, a small
    tower forgets how to read faster than the language model learns to use it.
    """

    steps: int  # of both stretches
    warmup: int  # of the first
    warmup_pictures: int = 32  # per step
    pictures: int = 16
    questions: int = 10  # packed on each picture
    warmup_rate: float = 3e-3
    rate: float = 2e-3
    tower: float = 0.1  # share of the rate that the tower moves by in the second stretch
    decay: float = 0.35  # last share of each stretch, in which the rate falls to zero
    codes: bool = False  # fixed codes for every dense label, not for words alone
    clip: float = 1.0
    counting: float = 0.5  # counting is asked this much more: the questions beside the intended ones are easy there

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def rate_at(self, step: int) -> float:
        if step < self.warmup:
            done, length, rate = step, self.warmup, self.warmup_rate
        else:
            done, length, rate = step - self.warmup, self.steps - self.warmup, self.rate
        return rate * min(1.0, (done + 1) / 100, (length - done) / (length * self.decay))

    def least_level(self, step: int) -> float:
        """How full the scenes are at least; in the second stretch it is the accuracy that makes them fuller."""
        if step < self.warmup:
            return step / self.warmup
        done = (step - self.warmup) / (self.steps - self.warmup)
        return min(1.0, max(0.1, (done - 0.35) / 0.3))


RECIPES = {
    "tiny-qwen": Recipe(steps=3000, warmup=800, codes=True),
    "tiny-llava": Recipe(steps=2600, warmup=800, codes=True),
    "tiny-gemma": Recipe(steps=2200, warmup=800, codes=True),
}


def recipe(name: str) -> Recipe:
    if name not in RECIPES:
        raise UnknownNameError("model", name, list(RECIPES))
    return RECIPES[name]
