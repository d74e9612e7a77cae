"""`Calibration`: the calibration set of a search. It scores schedules and adds up what that costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from vispco.core.errors import InvalidInputError, UnknownNameError
from vispco.core.schedule import Schedule
from vispco.evaluation.result import Evaluator
from vispco.evaluation.sample_sizes import SampleSizes
from vispco.pruner.pruner import Pruner
from vispco.scorers import Chain, ChainLike
from vispco.search.bill import FlopsBill

Measure = Literal["accuracy", "kl"]


@dataclass
class _Bill:
    """What a search has used: FLOPs of the language model, and how many schedules it evaluated.

    taught: number of leading samples whose unpruned pass is on the bill.
    """

    spent: FlopsBill = field(default_factory=FlopsBill)
    evaluations: int = 0
    taught: int = 0


class Calibration:
    """An evaluator, the sizes of its samples, and the bill of one search.

    evaluator: a `TaskEvaluator`, or any `Evaluator` with `sizes` (and `kl(schedule)` where a search asks for it).
    measure: the score of a schedule: 'accuracy', or 'kl', minus the mean KL to the unpruned model. Higher is better.

    Each schedule is evaluated and billed once. The bill is its whole cost in FLOPs, even if the evaluator shares the work
    of unpruned layers between schedules: that saves the same seconds in every search.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        *,
        measure: Measure = "accuracy",
        cost: str = "exact",
        sizes: SampleSizes | None = None,
    ) -> None:
        if measure not in get_args(Measure):
            raise UnknownNameError("measure", measure, list(get_args(Measure)))
        self.evaluator: Any = evaluator
        self.measure: Measure = measure
        self.sizes = sizes if sizes is not None else SampleSizes.of(evaluator, cost)
        self.bill = _Bill()
        self.chain: Chain | None = None  # None for the evaluator's own
        self._known: dict[tuple[str, Schedule], float] = {}
        self._under: dict[Chain, Calibration] = {}

    @classmethod
    def of(cls, given: Calibration | Evaluator) -> Calibration:
        return given if isinstance(given, Calibration) else cls(given)

    @property
    def num_layers(self) -> int:
        return self.sizes.num_layers

    def fresh(self) -> Calibration:
        """Return the same set with an empty bill."""
        return Calibration(self.evaluator, measure=self.measure, sizes=self.sizes)

    def under(self, chain: ChainLike) -> Calibration:
        """Return the same set, on the same bill, with schedules run under another chain of scorers."""
        other = Chain.of(chain)
        if other not in self._under:
            same = Calibration(self.evaluator, measure=self.measure, sizes=self.sizes.under(other))
            same.bill, same.chain = self.bill, other
            self._under[other] = same
        return self._under[other]

    def score(self, schedule: Schedule) -> float:
        return self.scores([schedule])[0]

    def scores(self, schedules: Sequence[Schedule]) -> list[float]:
        """Return the score of each schedule. New ones are evaluated in one pass over the data, if the evaluator can."""
        if self.measure == "kl":
            return [-self.kl(schedule) for schedule in schedules]
        new = [s for s in dict.fromkeys(schedules) if ("accuracy", s) not in self._known]
        many = getattr(self.evaluator, "many", None)
        subjects = [self._subject(schedule) for schedule in new]
        results = many(subjects) if many is not None and new else [self.evaluator(s) for s in subjects]
        for schedule, result in zip(new, results, strict=True):
            self._record(schedule, "accuracy", result.accuracy)
        return [self._known["accuracy", schedule] for schedule in schedules]

    def kl(self, schedule: Schedule) -> float:
        """Return the mean KL to the unpruned model on the answers. The first call bills the unpruned pass over new samples, too."""
        if ("kl", schedule) not in self._known:
            if not hasattr(self.evaluator, "kl"):
                raise InvalidInputError(
                    f"This search measures the KL to the unpruned model, and {type(self.evaluator).__name__} has no "
                    "`kl(schedule)`. Give a TaskEvaluator."
                )
            known, full = self.bill.taught, Schedule.full(self.num_layers)
            if known < len(self.sizes):
                before = self.sizes.first(known).total_flops(full) if known else 0.0
                self.bill.spent.teacher += self.sizes.total_flops(full) - before
                self.bill.taught = len(self.sizes)
            self._record(schedule, "kl", float(self.evaluator.kl(self._subject(schedule))))
        return self._known["kl", schedule]

    def first(self, n: int) -> Calibration:
        """Return the first n samples, on the same bill; all of them if the evaluator has no list of samples."""
        whole = self.evaluator
        if n < 1:
            raise InvalidInputError(f"{n} calibration samples were asked for. Give 1 or more.")
        if n >= len(self.sizes) or not hasattr(whole, "samples"):
            return self
        part = type(whole)(
            whole.model,
            whole.processor,
            whole.samples[:n],
            whole.scorer,
            batch_size=max(len(batch.rows) for batch in whole.batches),
            max_new_tokens=whole.max_new_tokens,
            costs=tuple(whole.costs),
            score=whole.options.score,
            direction=whole.options.direction,
            store=whole.store,
            reference=whole.reference,
        )
        few = Calibration(part, measure=self.measure, sizes=self.sizes.first(n))
        few.bill, few.chain = self.bill, self.chain
        return few

    def _subject(self, schedule: Schedule) -> Any:
        return schedule if self.chain is None else Pruner(self.chain, schedule)

    def _record(self, schedule: Schedule, kind: str, value: float) -> None:
        self._known[kind, schedule] = value
        self.bill.spent.measured += self.sizes.total_flops(schedule)
        self.bill.evaluations += 1
