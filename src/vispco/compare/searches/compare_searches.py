"""`compare`: every search on one calibration set, at one budget or at several, each result on one test set."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vispco.compare.searches.calibration import Calibration
from vispco.compare.searches.comparison_views import REFERENCE
from vispco.compare.searches.frontier_run import run_search
from vispco.compare.searches.rival import AnytimeRival, RivalResult
from vispco.compare.searches.search_comparison import Comparison, Reached, Row
from vispco.compare.searches.search_registry import Search, get
from vispco.core.errors import BudgetFloorError, InvalidInputError, NotApplicableError
from vispco.core.schedule import Schedule
from vispco.evaluation.result import Evaluation, Evaluator
from vispco.evaluation.sample_sizes import SampleSizes
from vispco.search.bill import FlopsBill

_UNPRUNED = "unpruned"
_CHECKPOINTS = (0.25, 0.5, 1.0, 2.0, 4.0)  # parts of the bill at which a search that can be stopped is looked at


@dataclass(frozen=True)
class ComparedBudgets:
    """Several budgets, for searches on equal terms.

    main: whose accuracies are shown by task. more: further ones, for searches that are not results yet. Each row then has
        what the search had reached at which cost (`Row.reached`), and its bill is for all budgets together.
    beyond: the bill of a search that can be stopped, as a multiple of that of the search 'vispco', if that is among the methods;
        without it, it makes its own number of measurements.
    """

    main: float
    more: Sequence[float] = ()
    beyond: float = 1.0

    @property
    def all(self) -> tuple[float, ...]:
        """Ascending; none if there is only the main one."""
        return tuple(sorted({self.main, *self.more})) if self.more else ()


def compare(
    calibration: Calibration | Evaluator,
    test: Evaluator,
    budget: float | ComparedBudgets,
    methods: Sequence[str | Search | RivalResult],
    *,
    details: Mapping[str, Any] | None = None,
    done: Sequence[Row] = (),
    on_method: Callable[[str], None] = lambda _: None,
    on_row: Callable[[Comparison], None] = lambda _: None,
) -> Comparison:
    """Compare searches as the paper's Table 2 does, for one model.

    calibration: where searches look. `Calibration(evaluator, measure=..., cost=...)` chooses the measure and the cost
        model of the budget. test: where their results are evaluated: other samples, the same model and scorer.
    methods: names ('vtw', 'random-40', 'vispco-static', ...), searches with settings, or results of earlier searches.
    budget: a fraction of the unpruned FLOPs, or several (`ComparedBudgets`).
    done: rows of an earlier comparison with the same `details`. A method that has a row with the same settings is not
        run again. Rows of methods that are not asked for are kept after the others.
    on_method: called with the name of each method before its search begins; on_row: with the comparison so far after it.

    Every search starts with an empty bill and knows nothing of the others. Each test sample meets the budget, too. The
    first row is the unpruned model. A method that cannot run on this model, or not within this budget, has no row; the
    details say why, under 'not_run'.
    """
    if not methods:
        raise InvalidInputError("No methods were given to compare. Name at least one, for instance 'random-40'.")
    calibration = Calibration.of(calibration)
    asked = budget if isinstance(budget, ComparedBudgets) else ComparedBudgets(budget)
    calibration.sizes.check_budget(asked.main)
    cost = calibration.sizes.cost.name
    chosen = [get(method) if isinstance(method, str) else method for method in methods]
    labels = [_UNPRUNED, *(method.label for method in chosen)]
    if len(set(labels)) != len(labels):
        twice = next(label for label in labels if labels.count(label) > 1)
        raise InvalidInputError(f"The method {twice!r} was given twice. Give every method once, under its own name.")
    sizes = SampleSizes.of(test, cost)
    full = Schedule.full(sizes.num_layers)
    known = {"calibration_samples": len(calibration.sizes), "test_samples": len(sizes), "measure": calibration.measure}
    before = {row.method: row for row in done}
    rows: dict[str, Row] = {}
    not_run: dict[str, str] = {}

    def comparison() -> Comparison:
        others = [row for label, row in before.items() if label not in labels]
        failures = {"not_run": dict(not_run)} if not_run else {}
        ordered = [rows[label] for label in labels if label in rows]
        return Comparison(asked.main, cost, (*ordered, *others), {**known, **(details or {}), **failures})

    rows[_UNPRUNED] = before.get(_UNPRUNED) or Row(_UNPRUNED, _check_cost(test(full), cost), FlopsBill(), 0.0, 0, full)
    own_first = sorted(zip(labels[1:], chosen, strict=True), key=lambda pair: pair[0] != REFERENCE)
    for label, method in own_first if asked.all else list(zip(labels[1:], chosen, strict=True)):
        bill = None
        if asked.all and isinstance(method, AnytimeRival) and REFERENCE in rows:
            bill = rows[REFERENCE].spent.total
        if label in before and _is_same(before[label], method, bill, asked.beyond):
            rows[label] = before[label]
            continue
        on_method(label)
        try:
            if asked.all and not isinstance(method, RivalResult):
                rows[label] = _make_frontier_row(method, calibration, asked, test, sizes, bill)
            else:
                found = method if isinstance(method, RivalResult) else method.search(calibration, asked.main)
                bill_of = (found.spent, found.seconds, found.evaluations)
                evaluation = _check_cost(found.evaluate(test, sizes), cost)
                rows[label] = Row(found.method, evaluation, *bill_of, found.schedule, found.provenance)
        except (NotApplicableError, BudgetFloorError) as error:
            not_run[label] = str(error)
        before.pop(label, None)
        on_row(comparison())
    return comparison()


def _is_same(row: Row, method: Search | RivalResult, bill: float | None, beyond: float) -> bool:
    """Whether a row of an earlier run is what this method would give: the same settings and the same bill."""
    settings = json.loads(json.dumps(method.settings()))  # as a file returns them
    if settings not in (None, row.provenance.get("settings")):
        return False
    return bool(row.provenance.get("bill") == (None if bill is None else [bill, beyond]))


def _make_frontier_row(
    method: Search,
    calibration: Calibration,
    asked: ComparedBudgets,
    test: Evaluator,
    sizes: SampleSizes,
    bill: float | None,
) -> Row:
    """The row of a search at several budgets, with what it had reached on the way."""
    beyond = asked.beyond
    checkpoints = () if bill is None else [share * bill for share in _CHECKPOINTS if share < beyond]
    limit = None if bill is None else beyond * bill
    run = run_search(method, calibration, asked.all, bill=limit, checkpoints=checkpoints)
    if asked.main not in run.candidates:
        raise BudgetFloorError(run.under_floor[asked.main])
    known: dict[object, Evaluation] = {}

    def evaluate(candidate: RivalResult) -> Evaluation:
        choice = candidate.choice  # the snapshots of an unchanged choice share its evaluation
        key = (choice.schedule, id(choice.planner), id(choice.evaluate), candidate.budget)
        if key not in known:
            known[key] = _check_cost(candidate.evaluate(test, sizes), sizes.cost.name)
        return known[key]

    reached = []
    for each in run.snapshots:
        found = {b: evaluate(candidate) for b, candidate in sorted(each.candidates.items())}
        points = tuple((b, e.fraction[sizes.cost.name], e.accuracy) for b, e in found.items())
        reached.append(Reached(each.flops, each.seconds, points))
    chosen = run.candidates[asked.main]
    provenance = {**chosen.provenance, **({} if bill is None else {"bill": [bill, beyond]})}
    if run.under_floor:
        provenance["under_floor"] = {f"{b:g}": why for b, why in run.under_floor.items()}
    return Row(
        run.method,
        evaluate(chosen),
        run.spent,
        run.seconds,
        run.evaluations,
        chosen.schedule,
        provenance,
        tuple(reached),
    )


def _check_cost(evaluation: Evaluation, cost: str) -> Evaluation:
    if cost not in evaluation.flops or cost not in evaluation.fraction:
        raise InvalidInputError(
            f"The budget is by the cost model {cost!r}, and the test evaluator has {sorted(evaluation.flops)}. "
            f"Make it with costs=({cost!r}, ...)."
        )
    return evaluation
