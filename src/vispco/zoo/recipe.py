"""How each model is trained: every number of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from vispco.errors import UnknownNameError


@dataclass(frozen=True, slots=True)
class Recipe:
    """Three stretches: the vision tower alone on dense labels, the language model on what the tower sees, and a polish.

    In the second, the tower goes on learning from the dense labels alone: with the answers' gradient in it, a small
    tower forgets how to read faster than the language model learns to use it. In the third, every scene is as full as
    those of the test set, and a counting scene is asked about its subject alone: beside it, high counts are rare.
    """

    steps: int  # of all stretches
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
    polish: int = 0  # steps of each round of the last stretch
    polish_rate: float = 1e-3  # at the beginning of a round; it falls to zero
    # of the last stretch: how much more counting is asked in each, and how many other questions beside a count
    rounds: tuple[tuple[float, int], ...] = ()
    counting: float = 0.5  # counting is asked this much more: the questions beside the intended ones are easy there

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def plain(self) -> int:
        """Steps before the polish."""
        return self.steps - self.polish * len(self.rounds)

    def counting_at(self, step: int) -> float:
        return self.counting if step < self.plain else self._round(step)[0]

    def beside_at(self, step: int) -> int | None:
        """How many other questions a counting scene has in the last stretch; before it, None."""
        return None if step < self.plain else self._round(step)[1]

    def _round(self, step: int) -> tuple[float, int]:
        return self.rounds[(step - self.plain) // self.polish]

    def rate_at(self, step: int) -> float:
        if step >= self.plain:
            done = (step - self.plain) % self.polish
            return self.polish_rate * min((done + 1) / 50, (self.polish - done) / self.polish)
        if step < self.warmup:
            done, length, rate = step, self.warmup, self.warmup_rate
        else:
            done, length, rate = step - self.warmup, self.plain - self.warmup, self.rate
        return rate * min(1.0, (done + 1) / 100, (length - done) / (length * self.decay))

    def least_level(self, step: int) -> float:
        """How full the scenes are at least; in the second stretch it is the accuracy that makes them fuller."""
        if step < self.warmup:
            return step / self.warmup
        done = (step - self.warmup) / (self.plain - self.warmup)
        return min(1.0, max(0.1, (done - 0.35) / 0.3))


RECIPES = {
    "tiny-qwen": Recipe(steps=4200, warmup=800, codes=True, polish=600, rounds=((0.5, 9), (1.5, 9))),
    "tiny-llava": Recipe(steps=2600, warmup=800, codes=True),
    "tiny-gemma": Recipe(steps=2200, warmup=800, codes=True),
}


def recipe(name: str) -> Recipe:
    if name not in RECIPES:
        raise UnknownNameError("model", name, list(RECIPES))
    return RECIPES[name]
