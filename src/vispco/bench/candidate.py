"""What is timed: the unpruned model, a schedule, or the result of a search. Plain data."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Self

from vispco.schedule import Schedule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vispco.pruner import Pruner

UNPRUNED = "unpruned"


@dataclass(frozen=True, kw_only=True)
class BenchCandidate:
    """Prunes by a schedule and a scorer, by a published method, or by what a run found; without any it is the unpruned model.

    method: of `vispco.presets`, with `cost` (its `to_dict()`) of the model; as published, or at the budget. allocation: of
    tokens over a prompt's pictures, compensate: of attention to tokens that are left, in place of what the others say.
    """

    name: str
    scorer: Mapping[str, Any] | None = None
    schedule: Schedule | None = None
    run: str | None = None
    method: str | None = None
    cost: Mapping[str, Any] | None = None
    budget: float | str | None = None
    allocation: str | None = None
    compensate: float | None = None

    @classmethod
    def unpruned(cls) -> Self:
        return cls(name=UNPRUNED)

    def pruner(self) -> Pruner | None:
        """A new pruner; None for the unpruned model."""
        from vispco.pruner import Pruner  # noqa: PLC0415

        options: dict[str, Any] = {"allocation": self.allocation, "compensate": self.compensate}
        if self.run is not None:
            return Pruner.from_pretrained(self.run, budget=self.budget, **options)
        if self.method is not None:
            from vispco import cost, presets  # noqa: PLC0415

            budget = None if self.budget is None else cost.parse_budget(self.budget)
            price = cost.from_dict(self.cost or {})
            return presets.pruner(self.method, None, budget=budget, cost=price, **options)
        if self.schedule is None:
            return None
        return Pruner(self.scorer or "fastv", self.schedule, **options)

    def to_dict(self) -> dict[str, Any]:
        schedule = None if self.schedule is None else self.schedule.to_dict()
        return {**asdict(self), "schedule": schedule, "scorer": None if self.scorer is None else dict(self.scorer)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        schedule = data.get("schedule")
        return cls(**{**data, "schedule": None if schedule is None else Schedule.from_dict(schedule)})
