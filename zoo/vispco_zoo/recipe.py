"""Recipes: all training settings of each shipped model."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from vispco.core.errors import UnknownNameError


@dataclass(frozen=True, slots=True)
class Round:
    """A part of the polish: what is asked in it, and what is trained."""

    counting: float  # added to the weight of counting
    other_questions: int = 9  # about a counting scene, apart from its counts
    crowds: float = 0.0  # share of the counting scenes that hold many things of few kinds
    tower: float | None = None  # if given, the answers train the tower too, and it moves by this share of the rate
    scaled_layers: tuple[int, int] = (0, 0)  # first layer, and the one after the last, whose branches are scaled
    branch_scale: float = 1.0  # the factor, applied before the first step of the round
    smoothing: float | None = None  # in place of the recipe's
    removal: float = 0.0  # if above 0: the KL that leaving out any one layer should cost at least

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> Round:
        return cls(**given | {"scaled_layers": tuple(given.get("scaled_layers", (0, 0)))})


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
    """The settings of a training run, which has three stages.

    1. Warm-up: the vision tower alone learns the labels of its tokens (`token_labels.py`).
    2. The language model learns to answer. The tower keeps learning from its labels, but gets no gradient of the answers:
       a small tower would forget how to read faster than the language model learns to use it.
    3. Polish, in rounds: every scene is as full as those of the test set, and many are made for counting.

    A model that is grown from a smaller one has the third stage alone.
    """

    steps: int  # of all stages
    warmup: int  # of the first stage
    warmup_pictures: int = 32  # per step
    pictures: int = 16
    questions: int = 10  # packed on each picture
    warmup_rate: float = 3e-3
    rate: float = 2e-3
    tower: float = 0.1  # share of the rate that the tower moves by after the warm-up; 0: it is fixed
    connector: float = 0.0  # if above 0: of a fixed tower, the share that its connector moves by; the answers train it
    decay: float = 0.35  # last share of each stage, in which the rate falls to zero
    codes: bool = False  # fixed codes for all labels of visual tokens, not only for words
    named_codes: bool = False  # half of a code is the embedding of a word that means the same
    clip: float = 1.0
    polish: int = 0  # steps of each round of the last stage
    polish_rate: float = 1e-3  # at the beginning of a round; it falls to zero
    rounds: tuple[Round, ...] = ()
    counting: float = 0.5  # added to the weight of counting before the polish
    growth: Growth | None = None  # the smaller model that the weights start from; None: random weights
    smoothing: float = 0.0  # share of the target probability that is spread over the whole vocabulary
    resampled: float = 0.0  # share of the pictures that are scaled after they were drawn
    scales: tuple[float, float] = (0.5, 1.6)  # least and greatest factor of their sides
    reworded: float = 0.0  # share of the questions that are asked in a longer wording
    bfloat16: bool = False  # products of matrices in bfloat16, weights in float32: half the time on CPUs that have it

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> Recipe:
        rounds = tuple(Round.from_dict(part) for part in given.get("rounds", ()))
        growth = None if given.get("growth") is None else Growth.from_dict(given["growth"])
        tuples = {"scales": tuple(given["scales"])} if "scales" in given else {}
        return cls(**given | {"rounds": rounds, "growth": growth} | tuples)

    def begins_like(self, other: Recipe, steps: int) -> bool:
        """Whether both have the same first `steps` steps. Later ones may differ."""
        alike = replace(self, steps=other.steps, polish=other.polish, rounds=other.rounds) == other
        return alike and all(self._at(step) == other._at(step) for step in range(steps))

    def _at(self, step: int) -> tuple[Any, ...]:
        return self.rate_at(step), self.least_level(step), self.round_at(step)

    @property
    def plain(self) -> int:
        """Number of steps before the polish."""
        return self.steps - self.polish * len(self.rounds)

    def round_at(self, step: int) -> Round | None:
        """The round that a step belongs to; None before the polish."""
        return None if step < self.plain else self.rounds[(step - self.plain) // self.polish]

    def answers_tower_rate(self, step: int) -> float | None:
        """The share of the rate that the tower moves by, or its connector, if the answers train it at this step; else None."""
        part = self.round_at(step)
        if part is not None:
            return part.tower
        return self.connector if self.connector and step >= self.warmup else None

    def smoothing_at(self, step: int) -> float:
        """The share of the target probability that is spread over the whole vocabulary at a step."""
        part = self.round_at(step)
        return self.smoothing if part is None or part.smoothing is None else part.smoothing

    def rate_at(self, step: int) -> float:
        """The learning rate: it rises, holds and falls to zero in each stage, and in each round of the polish."""
        if step >= self.plain:
            done = (step - self.plain) % self.polish
            return self.polish_rate * min((done + 1) / 50, (self.polish - done) / self.polish)
        if step < self.warmup:
            done, length, rate = step, self.warmup, self.warmup_rate
        else:
            done, length, rate = step - self.warmup, self.plain - self.warmup, self.rate
        return rate * min(1.0, (done + 1) / 100, (length - done) / (length * self.decay))

    def least_level(self, step: int) -> float:
        """How full the scenes are at least. In the second stage a high accuracy makes them fuller."""
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
    "tiny-qwen3": Recipe(
        steps=3300,
        warmup=800,
        tower=0.0,
        codes=True,
        polish=700,
        rounds=(Round(1.4, crowds=0.6, tower=0.4),),
        resampled=0.5,
        bfloat16=True,
    ),
    "smol": Recipe(
        steps=3000,
        warmup=300,
        pictures=4,
        questions=12,
        warmup_rate=1e-3,
        rate=6e-4,
        tower=0.0,
        connector=0.3,
        codes=True,
        named_codes=True,
        reworded=0.5,
        bfloat16=True,
    ),
    "tiny-deep": Recipe(
        steps=1350,
        warmup=0,
        pictures=8,
        tower=0.0,
        polish=450,
        polish_rate=6e-4,
        rounds=(
            Round(1.5, crowds=0.5),
            Round(1.5, crowds=0.5, scaled_layers=(8, 32), branch_scale=2.2),
            Round(1.5, crowds=0.5, scaled_layers=(9, 36), branch_scale=2.8, smoothing=0.0, removal=0.03),
        ),
        growth=Growth("tiny-qwen", (1, 3, 4, 4, 4, 4, 4, 4, 4, 4), (1.0, 0.45, 0.35, 0.35, *(1.0,) * 6)),
        smoothing=0.1,
    ),
}


def recipe(name: str) -> Recipe:
    """The recipe of a model."""
    if name not in RECIPES:
        raise UnknownNameError("model", name, list(RECIPES))
    return RECIPES[name]
