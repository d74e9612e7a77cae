"""`compare`: every search on one calibration set and one budget, each result on one test set."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from vispco.errors import InvalidInputError
from vispco.evaluation.result import Evaluation, Evaluator
from vispco.evaluation.sample_sizes import SampleSizes
from vispco.rivals.calibration import Calibration
from vispco.rivals.candidate import Candidate, PlannerResult, RivalResult, evaluate_candidate
from vispco.rivals.comparison import Comparison, Row
from vispco.rivals.registry import Search, get
from vispco.schedule import Schedule
from vispco.search.bill import FlopsBill

UNPRUNED = "unpruned"
OnMethod = Callable[[str], None]
"""Called with the name of each method before its search begins."""
OnRow = Callable[[Comparison], None]
"""Called with the comparison so far after each method."""
Method: TypeAlias = str | Search | RivalResult | PlannerResult


def compare(
    calibration: Calibration | Evaluator,
    test: Evaluator,
    budget: float,
    methods: Sequence[Method],
    *,
    details: Mapping[str, Any] | None = None,
    done: Sequence[Row] = (),
    on_method: OnMethod | None = None,
    on_row: OnRow | None = None,
) -> Comparison:
    """Compare searches as the paper's Table 2 does, for one model.

    calibration: where searches look. `Calibration(evaluator, measure=..., cost=...)` chooses the measure and the cost
        model of the budget. test: where their results are evaluated: other samples, the same model and scorer.
    methods: names ('vtw', 'random-40', 'vispco-static', ...), searches with settings, or results of earlier searches.
    done: rows of an earlier comparison with the same `details`. A method that has a row with the same settings is not
        run again. Rows of methods that are not asked for are kept after the others.

    Every search starts with an empty bill and knows nothing of the others. Each test sample meets the budget, too. The
    first row is the unpruned model.
    """
    if not methods:
        raise InvalidInputError("No methods were given to compare. Name at least one, for instance 'random-40'.")
    calibration = Calibration.of(calibration)
    calibration.sizes.check_budget(budget)
    cost = calibration.sizes.cost.name
    chosen = [get(method) if isinstance(method, str) else method for method in methods]
    labels = [UNPRUNED, *map(_label, chosen)]
    if len(set(labels)) != len(labels):
        twice = next(label for label in labels if labels.count(label) > 1)
        raise InvalidInputError(f"The method {twice!r} was given twice. Give every method once, under its own name.")
    sizes = SampleSizes.of(test, cost)
    full = Schedule.full(sizes.num_layers)
    known = {"calibration_samples": len(calibration.sizes), "test_samples": len(sizes), "measure": calibration.measure}
    before = {row.method: row for row in done}
    rows: list[Row] = []

    def comparison() -> Comparison:
        others = [row for label, row in before.items() if label not in labels]
        return Comparison(budget, cost, (*rows, *others), {**known, **(details or {})})

    rows.append(before.get(UNPRUNED) or Row(UNPRUNED, _check_cost(test(full), cost), FlopsBill(), 0.0, 0, full))
    for label, method in zip(labels[1:], chosen, strict=True):
        if label in before and _settings(method) in (None, before[label].provenance.get("settings")):
            rows.append(before[label])
            continue
        if on_method is not None:
            on_method(label)
        rows.append(_make_row(_run(method, calibration, budget), test, sizes))
        before.pop(label, None)
        if on_row is not None:
            on_row(comparison())
    return comparison()


def _label(method: Search | RivalResult | PlannerResult) -> str:
    return method.method if isinstance(method, RivalResult | PlannerResult) else method.label


def _settings(method: Search | RivalResult | PlannerResult) -> dict[str, Any] | None:
    """Return the settings of a search as JSON returns them; None for a result without settings."""
    settings: Mapping[str, Any] | None
    if isinstance(method, RivalResult | PlannerResult):
        settings = method.provenance.get("settings")
    else:
        settings = method.settings()
    return None if settings is None else dict(json.loads(json.dumps(settings)))


def _run(method: Search | RivalResult | PlannerResult, calibration: Calibration, budget: float) -> Candidate:
    return method if isinstance(method, RivalResult | PlannerResult) else method.search(calibration, budget)


def _make_row(candidate: Candidate, test: Evaluator, sizes: SampleSizes) -> Row:
    return Row(
        candidate.method,
        _check_cost(evaluate_candidate(candidate, test, sizes), sizes.cost.name),
        candidate.spent,
        candidate.seconds,
        candidate.evaluations,
        candidate.schedule,
        candidate.provenance,
    )


def _check_cost(evaluation: Evaluation, cost: str) -> Evaluation:
    if cost not in evaluation.flops or cost not in evaluation.fraction:
        raise InvalidInputError(
            f"The budget is by the cost model {cost!r}, and the test evaluator has {sorted(evaluation.flops)}. "
            f"Make it with costs=({cost!r}, ...)."
        )
    return evaluation
