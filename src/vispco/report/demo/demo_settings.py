"""Settings of a demo, as data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vispco.core.errors import InvalidInputError
from vispco.evaluation.spec import EvaluatorSpec
from vispco.scorers import Chain
from vispco.timing.timing import BenchSettings

if TYPE_CHECKING:
    from vispco.data.sample import Sample

Learn = Callable[[Any], tuple["Sequence[Sample]", dict[str, Any]]]
"""processor -> (what the search learns from, what to remember of it)."""


@dataclass(frozen=True, kw_only=True)
class DemoSettings:
    """spec: the model, its scorer, and what accuracy is measured on. learn: what is searched on. mode: 'joint' searches
    all candidate chains, and the scorer is that of the sweep; another mode searches the schedules of the scorer.

    trials: configurations of the sweep, drawn without replacement from the grid of single-layer schedules.
    timed: budgets whose time to first token is measured. batch_size: prompts at once while timing; None: chosen by a profile, so
    that layers have work enough for pruning to show. workers: processes of the sweep on a CPU; 0 for
    this one.
    """

    spec: EvaluatorSpec
    learn: Learn
    calibration: str = ""  # what `learn` draws from, in words: part of what makes a demo the same one
    mode: str = "joint"
    kernel: str = "steps"
    budgets: tuple[float, ...] = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
    trials: int = 48
    timed: tuple[float, ...] = (0.3, 0.4, 0.5, 0.8)
    bench: BenchSettings = field(default_factory=BenchSettings)
    batch_size: int | None = None
    examples: int = 8
    workers: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.trials, self.examples) < 1 or not self.timed:
            raise InvalidInputError(
                f"trials={self.trials}, examples={self.examples}, timed={list(self.timed)} were given. A demo needs at least one "
                "of each."
            )

    @property
    def study(self) -> str:
        """The name of its sweep."""
        return f"{self.spec.model.short_name}-{Chain.of(self.spec.scorer).name}-single-random"

    def identity(self) -> dict[str, Any]:
        """The settings that its results depend on, JSON-able; a folder holds one demo."""
        return {
            "evaluation": self.spec.fingerprint(),
            "calibration": self.calibration,
            "mode": self.mode,
            "kernel": self.kernel,
            "budgets": list(self.budgets),
            "trials": self.trials,
            "timed": list(self.timed),
            "bench": [self.bench.rounds, self.batch_size, self.bench.new_tokens],
            "examples": self.examples,
            "seed": self.seed,
        }
