"""`compare`: every search on one calibration set and one budget, what each found on one test set."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, TypeAlias

from vispco.errors import InvalidInputError, UnknownNameError
from vispco.evaluation.result import Evaluator
from vispco.rivals.calibration import Calibration
from vispco.rivals.candidate import Entrant, Found
from vispco.rivals.comparison import Comparison, Row
from vispco.rivals.registry import BASELINES, get
from vispco.rivals.rival import Baseline
from vispco.rivals.sample_sizes import Sizes
from vispco.rivals.vispco_search import OWN, Own
from vispco.schedule import Schedule
from vispco.search.bill import Spent

FULL = "unpruned"
OnMethod = Callable[[str], None]
"""Called with the name of each method before its search begins."""
OnRow = Callable[[Comparison], None]
"""Called with all that is known after each method."""


Method: TypeAlias = str | Baseline | Own | Found | Entrant


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
    """The paper's Table 2 for one model.

    calibration: where searches look; `Calibration(evaluator, measure=..., cost=...)` chooses the measure and the cost
        model of the budget. test: where their results are evaluated, other samples of the same model and scorer.
    methods: names ('vtw', 'random-40', 'vispco-static', ...), searches with settings, or what was found before.
    done: rows of an earlier comparison on the same ground. A method that is among them, with the same settings, is not
        run again; rows of methods that are not asked for are kept behind the others.

    Every search starts with an empty bill and knows nothing of the others. On the test set, too, each sample meets the
    budget. The first row is the unpruned model.
    """
    if not methods:
        raise InvalidInputError("No methods were given to compare. Name at least one, for instance 'random-40'.")
    ground = Calibration.of(calibration)
    ground.sizes.check(budget)
    name = ground.sizes.cost.name
    chosen = [named(method) if isinstance(method, str) else method for method in methods]
    labels = [FULL, *map(_label, chosen)]
    if len(set(labels)) != len(labels):
        twice = next(label for label in labels if labels.count(label) > 1)
        raise InvalidInputError(f"The method {twice!r} is there twice. Give every method once, under its own name.")
    sizes = Sizes.of(test, name)
    full = Schedule.full(sizes.num_layers)
    known = {"calibration_samples": len(ground.sizes), "test_samples": len(sizes), "measure": ground.measure}
    before = {row.method: row for row in done}
    rows: list[Row] = []

    def told() -> Comparison:
        others = [row for label, row in before.items() if label not in labels]
        return Comparison(budget, name, (*rows, *others), {**known, **(details or {})})

    rows.append(before.get(FULL) or Row(FULL, _evaluated(test, full, name), Spent(), 0.0, 0, full))
    for label, method in zip(labels[1:], chosen, strict=True):
        if label in before and _settings(method) in (None, before[label].provenance.get("settings")):
            rows.append(before[label])
            continue
        if on_method is not None:
            on_method(label)
        rows.append(_row(_found(method, ground, budget), test, sizes, name))
        before.pop(label, None)
        if on_row is not None:
            on_row(told())
    return told()


def named(name: str) -> Baseline | Own:
    """A search by its name: after other work, or VisPCO's own."""
    if name in OWN:
        return OWN[name]
    try:
        return get(name)
    except UnknownNameError:
        raise UnknownNameError("search", name, [*OWN, *BASELINES, "random-N"]) from None


def _label(method: Baseline | Own | Found | Entrant) -> str:
    return method.label if isinstance(method, Baseline | Own) else method.method


def _settings(method: Baseline | Own | Found | Entrant) -> dict[str, Any] | None:
    """What a row of this method was searched with, as JSON gives it back; None where there is no saying."""
    if isinstance(method, Found | Entrant):
        settings = method.provenance.get("settings")
        return None if settings is None else dict(settings)
    return dict(json.loads(json.dumps(asdict(method))))


def _found(method: Baseline | Own | Found | Entrant, ground: Calibration, budget: float) -> Found | Entrant:
    if isinstance(method, Own):
        return method.contend(ground, budget)
    return method.search(ground, budget) if isinstance(method, Baseline) else method


def _row(found: Found | Entrant, test: Evaluator, sizes: Sizes, cost: str) -> Row:
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
