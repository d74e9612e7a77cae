"""The calibration set as a search sees it: schedule in, score out, everything on the bill."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from vispco.errors import InvalidInputError, UnknownNameError
from vispco.evaluation.result import Evaluator
from vispco.rivals.sample_sizes import Sizes
from vispco.schedule import Schedule
from vispco.search.bill import Spent

Measure = Literal["accuracy", "kl"]


@dataclass
class Bill:
    """What a search has used: language-model FLOPs, and schedules that were measured."""

    spent: Spent = field(default_factory=Spent)
    evaluations: int = 0


class Calibration:
    """An evaluator, the sizes of its samples, and the bill of one search.

    evaluator: a `TaskEvaluator`, or any `Evaluator` with `sizes` (and `kl(schedule)` where a search asks for it).
    measure: what a score is: 'accuracy', or 'kl', minus the mean KL to the unpruned model. Higher is better.

    A schedule is measured and billed once, with its whole price in FLOPs, even where the evaluator shares the work of
    unpruned layers between schedules: that saves seconds, and every search saves them alike.
    """

    def __init__(
        self, evaluator: Evaluator, *, measure: Measure = "accuracy", cost: str = "exact", sizes: Sizes | None = None
    ) -> None:
        if measure not in get_args(Measure):
            raise UnknownNameError("measure", measure, list(get_args(Measure)))
        self.evaluator: Any = evaluator
        self.measure: Measure = measure
        self.sizes = sizes if sizes is not None else Sizes.of(evaluator, cost)
        self.bill = Bill()
        self._known: dict[tuple[str, Schedule], float] = {}
        self._has_reference = False

    @classmethod
    def of(cls, given: Calibration | Evaluator) -> Calibration:
        return given if isinstance(given, Calibration) else cls(given)

    @property
    def num_layers(self) -> int:
        return self.sizes.num_layers

    def fresh(self) -> Calibration:
        """The same set with an empty bill."""
        return Calibration(self.evaluator, measure=self.measure, sizes=self.sizes)

    def score(self, schedule: Schedule) -> float:
        return self.scores([schedule])[0]

    def scores(self, schedules: Sequence[Schedule]) -> list[float]:
        """The score of each schedule; those not yet known in one pass over the data, where the evaluator can."""
        if self.measure == "kl":
            return [-self.kl(schedule) for schedule in schedules]
        new = [s for s in dict.fromkeys(schedules) if ("accuracy", s) not in self._known]
        many = getattr(self.evaluator, "many", None)
        results = many(new) if many is not None and new else [self.evaluator(s) for s in new]
        for schedule, result in zip(new, results, strict=True):
            self._book(schedule, "accuracy", result.accuracy)
        return [self._known["accuracy", schedule] for schedule in schedules]

    def kl(self, schedule: Schedule) -> float:
        """Mean KL to the unpruned model on the answers; the reference's own pass is billed at the first call."""
        if ("kl", schedule) not in self._known:
            if not hasattr(self.evaluator, "kl"):
                raise InvalidInputError(
                    f"This search measures the KL to the unpruned model, and {type(self.evaluator).__name__} has no "
                    "`kl(schedule)`. Give a TaskEvaluator."
                )
            if not self._has_reference:
                self.bill.spent.teacher += self.sizes.spent(Schedule.full(self.num_layers))
                self._has_reference = True
            self._book(schedule, "kl", float(self.evaluator.kl(schedule)))
        return self._known["kl", schedule]

    def first(self, n: int) -> Calibration:
        """The first n samples alone, on the same bill; an evaluator that cannot be cut is taken whole."""
        whole = self.evaluator
        if n < 1:
            raise InvalidInputError(f"{n} calibration samples were asked for. Give 1 or more.")
        if n >= len(self.sizes) or not hasattr(whole, "samples"):
            return self
        cut = type(whole)(
            whole.model,
            whole.processor,
            whole.samples[:n],
            whole.scorer,
            batch_size=max(len(batch.rows) for batch in whole.batches),
            max_new_tokens=whole.max_new_tokens,
            costs=tuple(whole.costs),
            score=whole.score,
            direction=whole.direction,
            store=whole.store,
            reference=whole.reference,
        )
        few = Calibration(cut, measure=self.measure, sizes=self.sizes.first(n))
        few.bill = self.bill
        return few

    def _book(self, schedule: Schedule, kind: str, value: float) -> None:
        self._known[kind, schedule] = value
        self.bill.spent.measured += self.sizes.spent(schedule)
        self.bill.evaluations += 1
