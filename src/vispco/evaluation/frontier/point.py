"""One evaluated schedule, with where it came from."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vispco.core.errors import InvalidInputError, parsing
from vispco.core.schedule import Schedule
from vispco.evaluation.result import Evaluation

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Point:
    """A schedule, what its evaluation found, and its provenance (study, trial, seed, ...); never NaN or infinite.

    mean_of: 0 where the schedule itself was evaluated. A planner gives each sample a schedule of its own: then so many
        samples were planned for, `schedule` is the mean of their retentions, and no sample ran it.
    """

    schedule: Schedule
    evaluation: Evaluation
    provenance: Mapping[str, Any] = field(default_factory=dict)
    mean_of: int = 0

    def __post_init__(self) -> None:
        found = self.evaluation
        numbers = {"accuracy": found.accuracy, "low": found.low, "high": found.high, "seconds": found.seconds}
        numbers |= {f"flops[{k}]": v for k, v in found.flops.items()}
        numbers |= {f"fraction[{k}]": v for k, v in found.fraction.items()}
        if found.kl is not None:
            numbers["kl"] = found.kl
        for name, value in numbers.items():
            if not math.isfinite(value):
                raise InvalidInputError(
                    f"The {name} of the point {self.name} is {value}; a frontier takes finite numbers only."
                )

    @property
    def name(self) -> str:
        """What an error calls this point: its provenance where there is one, else its schedule."""
        if self.provenance:
            return ", ".join(f"{key}={value}" for key, value in sorted(self.provenance.items()))
        return str(self.schedule)

    @property
    def accuracy(self) -> float:
        return self.evaluation.accuracy

    @property
    def low(self) -> float:
        return self.evaluation.low

    @property
    def high(self) -> float:
        return self.evaluation.high

    @property
    def kl(self) -> float | None:
        return self.evaluation.kl

    @property
    def cost(self) -> dict[str, dict[str, float]]:
        """By cost model: FLOPs, and their fraction of the unpruned model's."""
        flops, fraction = self.evaluation.flops, self.evaluation.fraction
        return {
            model: {unit: known[model] for unit, known in (("flops", flops), ("fraction", fraction)) if model in known}
            for model in sorted({*flops, *fraction})
        }

    @property
    def key(self) -> str:
        """The whole point as text: equal points have equal keys."""
        return json.dumps(self.to_dict(), sort_keys=True)

    def to_dict(self) -> dict[str, Any]:
        found = {
            "schedule": self.schedule.to_dict(),
            "evaluation": self.evaluation.to_dict(),
            "provenance": dict(self.provenance),
        }
        return {**found, "mean_of": self.mean_of} if self.mean_of else found

    @classmethod
    @parsing("a point of a frontier")
    def from_dict(cls, data: Mapping[str, Any]) -> Point:
        """From `to_dict`. Versions before 0.1 did not say of a search's points that they are means: the solver tells."""
        evaluation, provenance = Evaluation.from_dict(data["evaluation"]), dict(data.get("provenance", {}))
        planned = sum(task.n for task in evaluation.tasks) if "solver" in provenance else 0
        return cls(Schedule.from_dict(data["schedule"]), evaluation, provenance, int(data.get("mean_of", planned)))
