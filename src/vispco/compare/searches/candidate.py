"""Candidates: what a comparison evaluates on the test set, and what each cost to find."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from vispco.core.errors import InvalidInputError
from vispco.core.schedule import Schedule
from vispco.evaluation.result import Evaluation
from vispco.evaluation.sample_sizes import SampleSizes
from vispco.pruner.pruner import Pruner
from vispco.scorers import Chain
from vispco.search.bill import FlopsBill


class Candidate(Protocol):
    """The result of a search, ready to be compared.

    spent: FLOPs of the language model during the search. seconds: its wall time. evaluations: schedules it evaluated.
    schedule: the curve [L] that was chosen; None for a planner, which makes one for each sample.
    """

    @property
    def method(self) -> str: ...
    @property
    def spent(self) -> FlopsBill: ...
    @property
    def seconds(self) -> float: ...
    @property
    def evaluations(self) -> int: ...
    @property
    def provenance(self) -> Mapping[str, Any]: ...
    @property
    def schedule(self) -> Schedule | None: ...

    def deploy(self, sizes: SampleSizes) -> Any:
        """Return the schedule or planner that the test evaluator runs on samples of these sizes."""


@dataclass(frozen=True)
class RivalResult:
    """The curve that a rival chose, with its bill; see `Candidate`.

    schedule: retention [L], the same for every sample. It is deployed as whole tokens within the budget of each sample.
    lift: whether it is also raised where a sample has budget left. budget: None if the search was given none.
    provenance: the settings of the search and what it found on the way. chain: its own scorers; None for those of the
    evaluator that it is deployed on.
    """

    method: str
    schedule: Schedule
    budget: float | None
    spent: FlopsBill
    seconds: float
    evaluations: int
    lift: bool = True
    provenance: Mapping[str, Any] = field(default_factory=dict)
    chain: Chain | None = None

    def deploy(self, sizes: SampleSizes) -> Schedule | Pruner:
        """Return the schedule of each sample: whole tokens within the budget; with its scorers, if it has its own."""
        own = sizes if self.chain is None else sizes.under(self.chain)
        fitted = self.schedule if self.budget is None else own.fit(self.schedule, self.budget, lift=self.lift)
        return fitted if self.chain is None else Pruner(self.chain, fitted)

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
            "chain": None if self.chain is None else self.chain.to_dict(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RivalResult:
        """Read `to_dict`. Keys that a newer version added are ignored."""
        known = {key: value for key, value in data.items() if key in cls.__dataclass_fields__}
        known["schedule"] = Schedule.from_dict(data["schedule"])
        known["spent"] = spent_from_dict(data["spent"])
        known["chain"] = None if data.get("chain") is None else Chain.of(data["chain"])
        return cls(**known)


@dataclass(frozen=True)
class PlannerResult:
    """The result of a search outside of this package, for instance VisPCO's own; see `Candidate`.

    planner: a `Schedule`, a planner or a `Pruner` for a `TaskEvaluator`. It must meet the budget by itself.
    """

    method: str
    planner: Any
    spent: FlopsBill
    seconds: float
    evaluations: int = 0
    provenance: Mapping[str, Any] = field(default_factory=dict)

    @property
    def schedule(self) -> Schedule | None:
        return self.planner if isinstance(self.planner, Schedule) else None

    def deploy(self, sizes: SampleSizes) -> Any:  # noqa: ARG002  # it meets the budget by itself
        return self.planner


@dataclass(frozen=True)
class InputResult(ABC):
    """The result of a method that looks at each input before it decides, or changes it; see `Candidate`.

    rival: the method with its settings. Subclasses implement `evaluate`. There is no schedule to tell without the inputs.
    """

    rival: Any
    budget: float
    spent: FlopsBill
    seconds: float
    evaluations: int = 0
    provenance: Mapping[str, Any] = field(default_factory=dict)
    schedule: Schedule | None = None

    @property
    def method(self) -> str:
        label: str = self.rival.label
        return label

    def deploy(self, sizes: SampleSizes) -> Any:
        """Refused: see `evaluate`."""
        raise InvalidInputError(f"{self.method!r} looks at each of {len(sizes)} inputs. Call evaluate(test, sizes).")

    @abstractmethod
    def evaluate(self, test: Any, sizes: SampleSizes) -> Evaluation:
        """Decide for each input of a `TaskEvaluator`, whose samples have these sizes, and evaluate."""


def evaluate_candidate(candidate: Candidate, test: Any, sizes: SampleSizes) -> Evaluation:
    """Evaluate the result of a search on a test evaluator, whose samples have these sizes.

    A candidate that looks at each input before it decides, or changes it, has `evaluate(test, sizes)` for it.
    """
    own = getattr(candidate, "evaluate", None)
    found: Evaluation = own(test, sizes) if own is not None else test(candidate.deploy(sizes))
    return found


def spent_from_dict(data: Mapping[str, float]) -> FlopsBill:
    """Read `FlopsBill.to_dict`. Keys that a newer version added are ignored."""
    return FlopsBill(**{key: value for key, value in data.items() if key in FlopsBill.__dataclass_fields__})
