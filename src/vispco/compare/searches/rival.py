"""`Rival`: the base class of other people's searches. Calibration set and budget in, `RivalResult` out.

An `AnytimeRival` measures one candidate after the other and can be stopped after each: `run_search` gives it a bill.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import cycle, islice
from typing import Any, ClassVar

import torch
from torch import Tensor

from vispco.compare.searches.calibration import Calibration
from vispco.core.errors import InvalidInputError
from vispco.core.layout import TokenLayout
from vispco.core.schedule import Schedule
from vispco.cost import Cost, Workload
from vispco.cost.solve import largest_fitting
from vispco.evaluation.result import Evaluation, Evaluator
from vispco.evaluation.sample_sizes import SampleSizes
from vispco.families import family_of
from vispco.pruner.pruner import Pruner
from vispco.scorers import Chain
from vispco.search.bill import FlopsBill

TryNext = Callable[[float], "tuple[float, Choice]"]
"""Measures the next candidate of a budget: its score and what it is."""


@dataclass(frozen=True)
class Choice:
    """What a search chose: a curve, a planner, or a function that evaluates.

    schedule: retention [L], the same for every sample; deployed as whole tokens within each sample's budget.
    lift: whether it is also raised where a sample has budget left. chain: its own scorers; None for those of the
    evaluator that it is deployed on. planner: a planner or a pruner that meets the budget by itself. evaluate: (test
    evaluator, sizes) -> evaluation, of a method that looks at each input before it decides, or changes it. provenance:
    what it found on the way.
    """

    schedule: Schedule | None = None
    lift: bool = True
    provenance: Mapping[str, Any] = field(default_factory=dict)
    chain: Chain | None = None
    planner: Any = None
    evaluate: Callable[[Any, SampleSizes], Evaluation] | None = None


@dataclass(frozen=True)
class RivalResult:
    """The choice of a search with its bill, ready to be compared.

    budget: None if the search was given none; a curve is then deployed as it is. spent: FLOPs of the language model
    during the search. seconds: its wall time. evaluations: schedules it evaluated. provenance: its settings, and the
    choice's.
    """

    method: str
    choice: Choice
    budget: float | None
    spent: FlopsBill
    seconds: float
    evaluations: int = 0
    provenance: Mapping[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The name of its row in a table."""
        return self.method

    def settings(self) -> Any:
        """Return the settings that led to it; None where nobody said."""
        return self.provenance.get("settings")

    @property
    def schedule(self) -> Schedule | None:
        """The curve that was chosen; None for a planner, which makes one for each sample."""
        return self.choice.schedule

    def deploy(self, sizes: SampleSizes) -> Any:
        """Return what a test evaluator runs on samples of these sizes: schedules within the budget, or a planner."""
        choice = self.choice
        if choice.planner is not None:
            return choice.planner
        if choice.schedule is None:
            raise InvalidInputError(
                f"{self.method!r} looks at each of {len(sizes)} inputs. Call evaluate(test, sizes)."
            )
        own = sizes if choice.chain is None else sizes.under(choice.chain)
        fitted = choice.schedule if self.budget is None else own.fit(choice.schedule, self.budget, lift=choice.lift)
        return fitted if choice.chain is None else Pruner(choice.chain, fitted)

    def evaluate(self, test: Any, sizes: SampleSizes) -> Evaluation:
        """Evaluate it on a test evaluator, whose samples have these sizes."""
        if self.choice.evaluate is not None:
            return self.choice.evaluate(test, sizes)
        found: Evaluation = test(self.deploy(sizes))
        return found


@dataclass(frozen=True)
class Rival(ABC):
    """A search. Subclasses are frozen dataclasses of their settings; they implement `_search` and nothing else.

    least: the least value of a setting, by name; a smaller one is refused.
    """

    name: ClassVar[str]
    least: ClassVar[Mapping[str, float]] = {}

    def __post_init__(self) -> None:
        given = {name: getattr(self, name) for name in self.least}
        if any(value is not None and not value >= self.least[name] for name, value in given.items()):
            settings = ", ".join(f"{name}={value}" for name, value in given.items())
            allowed = ", ".join(f"{name} from {low}" for name, low in self.least.items())
            raise InvalidInputError(
                f"{settings} {'was' if len(given) == 1 else 'were'} given to {self.name!r}. Give {allowed}."
            )

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
            self.check_budget(fresh, budget)
        start = time.perf_counter()
        choice = self._search_freely(fresh) if budget is None else self._search(fresh, budget)
        return self.result(choice, budget, fresh, time.perf_counter() - start)

    def result(self, choice: Choice, budget: float | None, calibration: Calibration, seconds: float) -> RivalResult:
        """Return a choice with the bill of the calibration set that it was made on."""
        provenance = {
            "settings": self.settings(),
            "measure": calibration.measure,
            "cost": calibration.sizes.cost.name,
            "samples": len(calibration.sizes),
            **choice.provenance,
        }
        bill = calibration.bill
        return RivalResult(self.label, choice, budget, replace(bill.spent), seconds, bill.evaluations, provenance)

    def check_budget(self, calibration: Calibration, budget: float) -> None:
        """Refuse a budget under the floor; a rival with scorers of its own has its own floor."""
        calibration.sizes.check_budget(budget)

    def require_model(self, calibration: Calibration, what: str) -> Any:
        """Return the evaluator of a calibration set, or refuse one without a model, which `what` needs."""
        if not hasattr(calibration.evaluator, "model"):
            raise InvalidInputError(
                f"The search {self.name!r} {what}, and {type(calibration.evaluator).__name__} has no model. Give a "
                "TaskEvaluator."
            )
        return calibration.evaluator

    @abstractmethod
    def _search(self, calibration: Calibration, budget: float) -> Choice:
        """Run the method. `calibration` counts what it spends; the budget has been checked."""

    def _search_freely(self, calibration: Calibration) -> Choice:  # noqa: ARG002
        """Run a method that can do without a budget."""
        raise InvalidInputError(f"The search {self.label!r} needs a budget, a fraction in (0, 1]. None was given.")


@dataclass(frozen=True)
class AnytimeRival(Rival):
    """A search that can be stopped after each measurement. Subclasses implement `begin` and `num_steps`."""

    @property
    @abstractmethod
    def num_steps(self) -> int:
        """How many measurements it makes for each budget where nobody stops it."""

    @abstractmethod
    def begin(self, calibration: Calibration, budgets: Sequence[float]) -> TryNext:
        """Prepare a search of these budgets; the result is called with one of them for each measurement."""

    def steps(self, calibration: Calibration, budgets: Sequence[float]) -> Iterator[tuple[float, Choice]]:
        """After each measurement, the budget that it was for and the best choice for it so far; budgets in turn, endless."""
        try_next = self.begin(calibration, budgets)
        best: dict[float, tuple[float, Choice]] = {}
        for budget in cycle(budgets):
            score, choice = try_next(budget)
            if budget not in best or score > best[budget][0]:
                best[budget] = score, choice
            yield budget, best[budget][1]

    def _search(self, calibration: Calibration, budget: float) -> Choice:
        return list(islice(self.steps(calibration, (budget,)), self.num_steps))[-1][1]


@dataclass(frozen=True)
class TrialRival(AnytimeRival):
    """An anytime search that makes `trials` measurements of each budget."""

    least: ClassVar[Mapping[str, float]] = {"trials": 1, "seed": 0}

    trials: int = 40
    seed: int = 0

    @property
    def num_steps(self) -> int:
        return self.trials


def unpruned_passes(evaluator: Any) -> Iterator[tuple[Sequence[int], TokenLayout, Callable[[], Any]]]:
    """The prompts of a `TaskEvaluator` in batches: the places of their samples, their layout, and what runs the model on them."""
    model = evaluator.model
    for batch in evaluator.batches:
        inputs = evaluator.store.encode(batch.samples).inputs
        layout = family_of(model).layout(model, inputs)
        yield batch.rows, layout, partial(model, **inputs, use_cache=False, logits_to_keep=1)


def best_schedule(calibration: Calibration, schedules: list[Schedule]) -> tuple[int, list[float]]:
    """Return the index of the schedule with the highest score (of equals the cheapest, then the first), and all scores."""
    scores = calibration.scores(schedules)
    costs = [calibration.sizes.fraction(schedule) for schedule in schedules]
    return min(range(len(schedules)), key=lambda i: (-scores[i], costs[i], i)), scores


def solve_curve(
    curve: Callable[[Tensor], Tensor], budget: float, workload: Workload, cost: Cost, *, most: float = 1.0
) -> Tensor:
    """The curve [B, L] of the largest number in [0, most] whose cost meets the budget on each sample of a workload [B].

    curve: numbers [..., B] -> retentions [..., B, L], which never fall when a number grows. Where even 0 is too dear,
    it is
    the curve of 0: `SampleSizes.fit` cuts it further.
    """
    limit = budget * cost.full(workload)

    def fits(number: Tensor) -> Tensor:
        return (cost.relaxed(curve(number), workload) <= limit) | (number <= 0.0)

    none = torch.zeros(workload.num_visual.shape, dtype=torch.float64)
    return curve(largest_fitting(fits, none, none + most))
