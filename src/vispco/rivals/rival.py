"""What every search after other work is: calibration set and budget in, `Found` out."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

from vispco.errors import InvalidInputError
from vispco.evaluation.result import Evaluator
from vispco.rivals.calibration import Calibration
from vispco.rivals.candidate import Found
from vispco.schedule import Schedule


@dataclass(frozen=True)
class Choice:
    """A search's answer before the bill is added; see `Found`."""

    schedule: Schedule
    lift: bool = True
    provenance: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Baseline(ABC):
    """A search. Subclasses are frozen dataclasses of their settings; they write `_search` and nothing else."""

    name: ClassVar[str]
    needs_budget: ClassVar[bool] = True

    @property
    def label(self) -> str:
        """What a table calls it."""
        return self.name

    def search(self, calibration: Calibration | Evaluator, budget: float | None = None) -> Found:
        """Find a schedule on a calibration set, within `budget`, a fraction of the unpruned model's FLOPs."""
        own = Calibration.of(calibration).fresh()
        if budget is not None:
            own.sizes.check(budget)
        elif self.needs_budget:
            raise InvalidInputError(f"The search {self.label!r} needs a budget, a fraction in (0, 1]. None was given.")
        began = time.perf_counter()
        choice = self._search(own, budget)
        seconds = time.perf_counter() - began
        provenance = {
            "settings": asdict(self),
            "measure": own.measure,
            "cost": own.sizes.cost.name,
            "samples": len(own.sizes),
            **choice.provenance,
        }
        return Found(
            self.label, choice.schedule, budget, own.bill.spent, seconds, own.bill.evaluations, choice.lift, provenance
        )

    @abstractmethod
    def _search(self, calibration: Calibration, budget: float | None) -> Choice:
        """The method itself. `calibration` counts what it does; the budget has been checked."""


def best(calibration: Calibration, schedules: list[Schedule]) -> tuple[int, list[float]]:
    """Which schedule scores highest (of equals the cheapest, then the first), and all scores."""
    scores = calibration.scores(schedules)
    costs = [calibration.sizes.fraction(schedule) for schedule in schedules]
    return min(range(len(schedules)), key=lambda i: (-scores[i], costs[i], i)), scores
