"""`Rival`: the base class of other people's searches. Calibration set and budget in, `RivalResult` out."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

from vispco.errors import InvalidInputError
from vispco.evaluation.result import Evaluator
from vispco.rivals.calibration import Calibration
from vispco.rivals.candidate import RivalResult
from vispco.schedule import Schedule


@dataclass(frozen=True)
class Choice:
    """What a rival chose, before its bill is added; see `RivalResult`."""

    schedule: Schedule
    lift: bool = True
    provenance: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Rival(ABC):
    """A search. Subclasses are frozen dataclasses of their settings; they implement `_search` and nothing else."""

    name: ClassVar[str]
    needs_budget: ClassVar[bool] = True

    @property
    def label(self) -> str:
        """The name of its row in a table."""
        return self.name

    def settings(self) -> dict[str, Any]:
        """Return the settings of this search."""
        return asdict(self)

    def search(self, calibration: Calibration | Evaluator, budget: float | None = None) -> RivalResult:
        """Find a schedule on a calibration set, within `budget`, a fraction of the unpruned model's FLOPs."""
        fresh = Calibration.of(calibration).fresh()
        if budget is not None:
            fresh.sizes.check_budget(budget)
        elif self.needs_budget:
            raise InvalidInputError(f"The search {self.label!r} needs a budget, a fraction in (0, 1]. None was given.")
        start = time.perf_counter()
        choice = self._search(fresh, budget)
        seconds = time.perf_counter() - start
        provenance = {
            "settings": self.settings(),
            "measure": fresh.measure,
            "cost": fresh.sizes.cost.name,
            "samples": len(fresh.sizes),
            **choice.provenance,
        }
        bill = fresh.bill
        return RivalResult(
            self.label, choice.schedule, budget, bill.spent, seconds, bill.evaluations, choice.lift, provenance
        )

    @abstractmethod
    def _search(self, calibration: Calibration, budget: float | None) -> Choice:
        """Run the method. `calibration` counts what it spends; the budget has been checked."""


def best_schedule(calibration: Calibration, schedules: list[Schedule]) -> tuple[int, list[float]]:
    """Return the index of the schedule with the highest score (of equals the cheapest, then the first), and all scores."""
    scores = calibration.scores(schedules)
    costs = [calibration.sizes.fraction(schedule) for schedule in schedules]
    return min(range(len(schedules)), key=lambda i: (-scores[i], costs[i], i)), scores
