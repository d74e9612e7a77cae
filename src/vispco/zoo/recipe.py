"""How each model is trained: every number of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from vispco.errors import UnknownNameError


@dataclass(frozen=True, slots=True)
class Round:
    """A part of the polish: what it asks, and what it moves."""

    counting: float  # counting is asked this much more
    other_questions: int = 9  # about a counting scene, apart from its counts
    crowds: float = 0.0  # share of the counting scenes that hold many things of few kinds
    tower: float | None = None  # if given, the answers train the tower too, and it moves by this share of the rate
    scaled_layers: tuple[int, int] = (0, 0)  # from the first to before the last: their branches are multiplied
    branch_scale: float = 1.0  # by this before the round's first step

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> Round:
        older = {"beside": "other_questions"}  # names in cards and checkpoints of earlier versions
        found = {older.get(name, name): value for name, value in given.items()}
        return cls(**found | {"scaled_layers": tuple(found.get("scaled_layers", (0, 0)))})


@dataclass(frozen=True, slots=True)
class Growth:
    """How a deep model starts from a smaller one. Layer i of the smaller model becomes `copies[i]` layers."""

    model: str  # a shipped model
    copies: tuple[int, ...]
    scales: tuple[float, ...]  # factor on the two branches of each copy; 1/k keeps what k copies add together
    own: float = 0.5  # how much more a copy weighs heads and neurons of its own; 0: copies are equal, 1: no overlap

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> Growth:
        return cls(**given | {key: tuple(given[key]) for key in ("copies", "scales")})


@dataclass(frozen=True, slots=True)
class Recipe:
    """Three stretches: the vision tower alone on dense labels, the language model on what the tower sees, and a polish.

    In the second, the tower goes on learning from the dense labels alone: with the answers' gradient in it, a small
    tower forgets how to read faster than the language model learns to use it. In the third, every scene is as full as
    those of the test set, and a counting scene is asked about its subject alone (beside it, high counts are rare) or is
    a crowd, in which most counts are high; and the language model knows enough to teach the tower what it misses.
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
    rounds: tuple[Round, ...] = ()
    counting: float = 0.5  # counting is asked this much more: the questions beside the intended ones are easy there
    growth: Growth | None = None  # the smaller model that the weights start from; None: random weights
    smoothing: float = 0.0  # share of the target probability that is spread over the whole vocabulary

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> Recipe:
        rounds = tuple(Round.from_dict(part) for part in given.get("rounds", ()))
        growth = None if given.get("growth") is None else Growth.from_dict(given["growth"])
        return cls(**given | {"rounds": rounds, "growth": growth})

    def begins_like(self, other: Recipe, steps: int) -> bool:
        """Whether the first so many steps of both are the same; what comes behind them may differ."""
        alike = replace(self, steps=other.steps, polish=other.polish, rounds=other.rounds) == other
        return alike and all(self._at(step) == other._at(step) for step in range(steps))

    def _at(self, step: int) -> tuple[Any, ...]:
        return self.rate_at(step), self.least_level(step), self.round_at(step)

    @property
    def plain(self) -> int:
        """Steps before the polish."""
        return self.steps - self.polish * len(self.rounds)

    def round_at(self, step: int) -> Round | None:
        """The part of the polish that a step belongs to; before it, None."""
        return None if step < self.plain else self.rounds[(step - self.plain) // self.polish]

    def round_begins(self, step: int) -> bool:
        """Whether a step is the first of a round."""
        return step >= self.plain and (step - self.plain) % self.polish == 0

    def answers_tower_rate(self, step: int) -> float | None:
        """The share of the rate that the tower moves by where the answers train it; elsewhere None."""
        part = self.round_at(step)
        return None if part is None else part.tower

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
        if step >= self.plain:
            return 1.0
        done = (step - self.warmup) / (self.plain - self.warmup)
        return min(1.0, max(0.1, (done - 0.35) / 0.3))


RECIPES = {
    "tiny-qwen": Recipe(
        steps=5400,
        warmup=800,
        codes=True,
        polish=600,
        rounds=(Round(0.5), Round(1.5), Round(1.5, crowds=0.7, tower=0.3), Round(1.5, crowds=0.7, tower=1.0)),
    ),
    "tiny-llava": Recipe(steps=3800, warmup=800, codes=True, polish=600, rounds=(Round(1.0, crowds=0.7),) * 2),
    "tiny-gemma": Recipe(
        steps=2800, warmup=800, codes=True, counting=0.0, polish=600, rounds=(Round(1.0, crowds=0.7),)
    ),
    "tiny-deep": Recipe(
        steps=900,
        warmup=0,
        pictures=8,
        tower=0.0,
        polish=450,
        polish_rate=6e-4,
        rounds=(Round(1.5, crowds=0.5), Round(1.5, crowds=0.5, scaled_layers=(8, 32), branch_scale=2.2)),
        growth=Growth("tiny-qwen", (1, 3, 4, 4, 4, 4, 4, 4, 4, 4), (1.0, 0.45, 0.35, 0.35, *(1.0,) * 6)),
        smoothing=0.1,
    ),
}


def recipe(name: str) -> Recipe:
    if name not in RECIPES:
        raise UnknownNameError("model", name, list(RECIPES))
    return RECIPES[name]
