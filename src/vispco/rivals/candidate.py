"""What a search after other work returns: one curve, how it is deployed, and the bill."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from vispco.rivals.sample_sizes import Sizes
from vispco.schedule import Schedule
from vispco.search.bill import Spent


@dataclass(frozen=True)
class Found:
    """The curve that `method` chose.

    schedule: retention [L], the same for every sample. On samples it runs as `on(sizes)`: whole tokens within the budget
        on each. lift: whether a sample's left-over budget raises it. budget: None where the method knows none.
    spent: language-model FLOPs of the search; seconds: its wall time; evaluations: schedules that it measured.
    provenance: settings and what was seen on the way.
    """

    method: str
    schedule: Schedule
    budget: float | None
    spent: Spent
    seconds: float
    evaluations: int
    lift: bool = True
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def on(self, sizes: Sizes) -> Schedule:
        """What runs on samples of these sizes."""
        return self.schedule if self.budget is None else sizes.fit(self.schedule, self.budget, lift=self.lift)

    def to_dict(self) -> dict[str, Any]:
        return {
            "method": self.method,
            "schedule": self.schedule.to_dict(),
            "budget": self.budget,
            "spent": self.spent.to_dict(),
            "seconds": self.seconds,
            "evaluations": self.evaluations,
            "lift": self.lift,
            "provenance": dict(self.provenance),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Found:
        """From `to_dict`; keys that a newer version added are ignored."""
        known = {key: value for key, value in data.items() if key in cls.__dataclass_fields__}
        known["schedule"] = Schedule.from_dict(data["schedule"])
        known["spent"] = spent_from(data["spent"])
        return cls(**known)


def spent_from(data: Mapping[str, float]) -> Spent:
    return Spent(**{key: value for key, value in data.items() if key in Spent.__dataclass_fields__})


@dataclass(frozen=True)
class Entrant:
    """The result of another search, for instance VisPCO's own: whatever the test evaluator takes, and its bill.

    subject: a `Schedule`, or a planner for a `TaskEvaluator`. It has to meet the budget by itself.
    """

    method: str
    subject: Any
    spent: Spent
    seconds: float
    evaluations: int = 0
    provenance: Mapping[str, Any] = field(default_factory=dict)
