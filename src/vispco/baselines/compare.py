"""`compare`: every search on one calibration set and one budget, what each found on one test set."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from vispco.baselines.baseline import Baseline
from vispco.baselines.calibration import Calibration
from vispco.baselines.comparison import Comparison, Row
from vispco.baselines.found import Found
from vispco.baselines.registry import get
from vispco.baselines.sizes import Sizes
from vispco.errors import InvalidInputError
from vispco.evaluation.result import Evaluator
from vispco.schedule import Schedule
from vispco.search.spent import Spent

FULL = "unpruned"
OnMethod = Callable[[str], None]
"""Called with the name of each method before its search begins."""


@dataclass(frozen=True)
class Contender:
    """The result of another search, for instance VisPCO's own: whatever the test evaluator takes, and its bill.

    subject: a `Schedule`, or a planner for a `TaskEvaluator`. It has to meet the budget by itself.
    """

    method: str
    subject: Any
    spent: Spent
    seconds: float
    evaluations: int = 0
    provenance: Mapping[str, Any] = field(default_factory=dict)


Method: TypeAlias = str | Baseline | Found | Contender


def compare(
    calibration: Calibration | Evaluator,
    test: Evaluator,
    budget: float,
    methods: Sequence[Method],
    *,
    details: Mapping[str, Any] | None = None,
    on_method: OnMethod | None = None,
) -> Comparison:
    """The paper's Table 2 for one model.

    calibration: where searches look; `Calibration(evaluator, measure=..., cost=...)` chooses the measure and the cost
        model of the budget. test: where their results are evaluated, other samples of the same model and scorer.
    methods: names ('vtw', 'random-40', ...), searches with settings, or what was found before.

    Every search starts with an empty bill and knows nothing of the others. On the test set, too, each sample meets the
    budget. The first row is the unpruned model.
    """
    if not methods:
        raise InvalidInputError("No methods were given to compare. Name at least one, for instance 'random-40'.")
    ground = Calibration.of(calibration)
    ground.sizes.check(budget)
    name = ground.sizes.cost.name
    chosen = [get(method) if isinstance(method, str) else method for method in methods]
    labels = [FULL, *(m.label if isinstance(m, Baseline) else m.method for m in chosen)]
    if len(set(labels)) != len(labels):
        twice = next(label for label in labels if labels.count(label) > 1)
        raise InvalidInputError(f"The method {twice!r} is there twice. Give every method once, under its own name.")
    sizes = Sizes.of(test, name)
    full = Schedule.full(sizes.num_layers)
    rows = [Row(FULL, _evaluated(test, full, name), Spent(), 0.0, 0, full)]
    for method in chosen:
        if on_method is not None:
            on_method(method.label if isinstance(method, Baseline) else method.method)
        found = method.search(ground, budget) if isinstance(method, Baseline) else method
        rows.append(_row(found, test, sizes, name))
    known = {"calibration_samples": len(ground.sizes), "test_samples": len(sizes), "measure": ground.measure}
    return Comparison(budget, name, tuple(rows), {**known, **(details or {})})


def _row(found: Found | Contender, test: Evaluator, sizes: Sizes, cost: str) -> Row:
    subject = found.on(sizes) if isinstance(found, Found) else found.subject
    curve = found.schedule if isinstance(found, Found) else found.subject
    return Row(
        found.method,
        _evaluated(test, subject, cost),
        found.spent,
        found.seconds,
        found.evaluations,
        curve if isinstance(curve, Schedule) else None,
        found.provenance,
    )


def _evaluated(test: Evaluator, subject: Any, cost: str) -> Any:
    evaluation = test(subject)
    if cost not in evaluation.flops or cost not in evaluation.fraction:
        raise InvalidInputError(
            f"The budget is by the cost model {cost!r}, and the test evaluator tells {sorted(evaluation.flops)}. "
            f"Make it with costs=({cost!r}, ...)."
        )
    return evaluation
