"""`Rival`: the base class of other people's searches. Calibration set and budget in, `RivalResult` out.

An `AnytimeRival` measures one schedule after the other and can be stopped after each: `run_search` gives it a bill. A
`TrialRival` is one whose settings are counts.
"""

from __future__ import annotations

import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from typing import Any, ClassVar, TypeAlias

import torch
from torch import Tensor

from vispco.compare.searches.calibration import Calibration
from vispco.compare.searches.candidate import PlannerResult, RivalResult
from vispco.core.errors import InvalidInputError, needs_extra
from vispco.core.schedule import Schedule
from vispco.cost import Cost, Workload
from vispco.cost.solve import largest_fitting
from vispco.evaluation.result import Evaluator
from vispco.evaluation.sample_sizes import SampleSizes
from vispco.pruner.pruner import Pruner
from vispco.scorers import Chain

Result: TypeAlias = RivalResult | PlannerResult
"""A curve that is moved to the budget of each sample, or a pruner that meets it by itself."""


def load_optuna() -> Any:
    """Optuna without its messages, or a sentence on how to get it."""
    with needs_extra("This search needs Optuna", "search"):
        import optuna  # noqa: PLC0415 - an extra, and slow to import
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
    return optuna


@dataclass(frozen=True)
class Choice:
    """What a rival chose, before its bill is added; see `RivalResult`.

    deployed: in place of a curve, a pruner that meets the budget on every sample by itself.
    """

    schedule: Schedule | None = None
    lift: bool = True
    provenance: Mapping[str, Any] = field(default_factory=dict)
    chain: Chain | None = None
    deployed: Pruner | None = None


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

    def search(self, calibration: Calibration | Evaluator, budget: float | None = None) -> Result:
        """Find a schedule on a calibration set, within `budget`, a fraction of the unpruned model's FLOPs."""
        fresh = Calibration.of(calibration).fresh()
        if budget is not None:
            self.floor_sizes(fresh).check_budget(budget)
        elif self.needs_budget:
            raise InvalidInputError(f"The search {self.label!r} needs a budget, a fraction in (0, 1]. None was given.")
        start = time.perf_counter()
        choice = self._search(fresh, budget)
        return self.result(choice, budget, fresh, time.perf_counter() - start)

    def result(self, choice: Choice, budget: float | None, calibration: Calibration, seconds: float) -> Result:
        """Return a choice with the bill of the calibration set that it was made on."""
        bill, spent = calibration.bill, replace(calibration.bill.spent)
        provenance = {
            "settings": self.settings(),
            "measure": calibration.measure,
            "cost": calibration.sizes.cost.name,
            "samples": len(calibration.sizes),
            **choice.provenance,
        }
        if choice.deployed is not None:
            return PlannerResult(self.label, choice.deployed, spent, seconds, bill.evaluations, provenance)
        assert choice.schedule is not None  # noqa: S101 - one of the two is given
        return RivalResult(
            self.label, choice.schedule, budget, spent, seconds, bill.evaluations, choice.lift, provenance, choice.chain
        )

    def floor_sizes(self, calibration: Calibration) -> SampleSizes:
        """Return the sizes whose floor a budget must exceed; a rival with scorers of its own has its own floor."""
        return calibration.sizes

    @abstractmethod
    def _search(self, calibration: Calibration, budget: float | None) -> Choice:
        """Run the method. `calibration` counts what it spends; the budget has been checked."""


@dataclass(frozen=True)
class AnytimeRival(Rival):
    """A search that can be stopped after each measurement. Subclasses implement `steps` and `num_steps`."""

    @property
    @abstractmethod
    def num_steps(self) -> int:
        """How many measurements it makes for each budget where nobody stops it."""

    @abstractmethod
    def steps(self, calibration: Calibration, budgets: Sequence[float]) -> Iterator[tuple[float, Choice]]:
        """After each measurement, the budget that it was for and the best choice for it so far; budgets in turn, endless."""

    def _search(self, calibration: Calibration, budget: float | None) -> Choice:
        assert budget is not None  # noqa: S101 - needs_budget
        return list(islice(self.steps(calibration, (budget,)), self.num_steps))[-1][1]


@dataclass(frozen=True)
class TrialRival(AnytimeRival):
    """An anytime search whose settings are counts. trials: measurements of each budget. least: the least of each setting."""

    least: ClassVar[Mapping[str, int]] = {"trials": 1, "seed": 0}

    trials: int = 40
    seed: int = 0

    def __post_init__(self) -> None:
        given = {name: getattr(self, name) for name in self.least}
        if any(given[name] < low for name, low in self.least.items()):
            settings = ", ".join(f"{name}={value}" for name, value in given.items())
            allowed = ", ".join(f"{name} from {low}" for name, low in self.least.items())
            raise InvalidInputError(f"{settings} were given to {self.name!r}. Give {allowed}.")

    @property
    def num_steps(self) -> int:
        return self.trials


def best_schedule(calibration: Calibration, schedules: list[Schedule]) -> tuple[int, list[float]]:
    """Return the index of the schedule with the highest score (of equals the cheapest, then the first), and all scores."""
    scores = calibration.scores(schedules)
    costs = [calibration.sizes.fraction(schedule) for schedule in schedules]
    return min(range(len(schedules)), key=lambda i: (-scores[i], costs[i], i)), scores


def solve_curve(
    curve: Callable[[Tensor], Tensor], budget: float, workload: Workload, cost: Cost, *, most: float = 1.0
) -> Tensor:
    """The curve [B, L] of the largest number in [0, most] whose cost meets the budget on each sample of a workload [B].

    curve: numbers [..., B] -> retentions [..., B, L], which never fall when a number grows. Where even 0 is too dear, it is
    the curve of 0: `SampleSizes.fit` cuts it further.
    """
    limit = budget * cost.full(workload)

    def fits(number: Tensor) -> Tensor:
        return (cost.relaxed(curve(number), workload) <= limit) | (number <= 0.0)

    none = torch.zeros(workload.num_visual.shape, dtype=torch.float64)
    return curve(largest_fitting(fits, none, none + most))
