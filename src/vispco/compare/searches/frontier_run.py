"""`run_search`: one search at several budgets under one bill, with what it had found whenever a part of the bill was
spent.

A search that learns all budgets at once runs once. One that can be stopped goes over the budgets in turn until the bill
is spent. Any other runs once for each budget, and its bill is the sum.
"""

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from vispco.compare.searches.calibration import Calibration
from vispco.compare.searches.rival import AnytimeRival, Choice, Rival, RivalResult
from vispco.compare.searches.search_registry import Search, get, takes
from vispco.core.errors import BudgetFloorError, InvalidInputError
from vispco.evaluation.result import Evaluation, Evaluator
from vispco.evaluation.sample_sizes import SampleSizes
from vispco.search.bill import FlopsBill

_STALE = 200  # measurements of each budget that were all known already: the space has no more to find


@dataclass(frozen=True)
class _Snapshot:
    """What a search had found for each budget after `flops` and `seconds` were spent."""

    flops: float
    seconds: float
    candidates: Mapping[float, RivalResult]


@dataclass(frozen=True)
class _FrontierRun:
    """What a search found for each budget, and what all of it cost together.

    snapshots: what it had found on the way; the last one is the end. under_floor: budgets that it cannot meet, with a
    sentence that says why.
    """

    method: str
    candidates: Mapping[float, RivalResult]
    spent: FlopsBill
    seconds: float
    evaluations: int
    snapshots: tuple[_Snapshot, ...]
    under_floor: Mapping[float, str] = field(default_factory=dict)

    def evaluate(self, test: Any) -> dict[float, Evaluation]:
        """Evaluate each budget's result on a test evaluator."""
        return {b: found.evaluate(test, SampleSizes.of(test)) for b, found in self.candidates.items()}


def run_search(
    search: str | Search,
    calibration: Calibration | Evaluator,
    budgets: Sequence[float],
    *,
    bill: float | None = None,
    checkpoints: Sequence[float] = (),
    seed: int = 0,
) -> _FrontierRun:
    """Run a search for several budgets.

    bill: FLOPs at which a search that can be stopped is stopped, instead of after its own number of measurements; others
        spend what they spend. checkpoints: FLOPs at which a snapshot of such a search is taken, ascending.
    seed: of a search that is given by name.
    """
    if not budgets:
        raise InvalidInputError("No budgets were given to a search. Give at least one, such as 0.5.")
    chosen: Any = search
    if isinstance(search, str):
        chosen = get(search, **({"seed": seed} if takes(search, "seed") else {}))
    calibration = Calibration.of(calibration)
    learns_all = getattr(chosen, "learns_all_budgets", False)
    if not (learns_all or isinstance(chosen, AnytimeRival)):
        return _each(chosen, calibration, budgets)
    under: dict[float, str] = {}
    for budget in budgets if isinstance(chosen, Rival) else ():
        try:
            chosen.check_budget(calibration, budget)
        except BudgetFloorError as error:
            under[budget] = str(error)
    inside = [budget for budget in budgets if budget not in under]
    _check_any(chosen.label, inside, under)
    if not learns_all:
        return _stopped(chosen, calibration.fresh(), inside, under, bill, checkpoints)
    found: dict[float, RivalResult] = chosen.search_budgets(calibration, inside)
    first = next(iter(found.values()))
    end = _Snapshot(first.spent.total, first.seconds, found)
    return _FrontierRun(chosen.label, found, first.spent, first.seconds, first.evaluations, (end,), under)


def _each(search: Search, calibration: Calibration, budgets: Sequence[float]) -> _FrontierRun:
    """One search for each budget."""
    found: dict[float, RivalResult] = {}
    under: dict[float, str] = {}
    spent, seconds, evaluations = FlopsBill(), 0.0, 0
    for budget in budgets:
        try:
            found[budget] = search.search(calibration, budget)
        except BudgetFloorError as error:
            under[budget] = str(error)
            continue
        spent.add(found[budget].spent.to_dict())
        seconds += found[budget].seconds
        evaluations += found[budget].evaluations
    _check_any(search.label, found, under)
    end = _Snapshot(spent.total, seconds, found)
    return _FrontierRun(search.label, found, spent, seconds, evaluations, (end,), under)


def _stopped(
    rival: AnytimeRival,
    calibration: Calibration,
    inside: Sequence[float],
    under: Mapping[float, str],
    bill: float | None,
    checkpoints: Sequence[float],
) -> _FrontierRun:
    """All budgets `inside` in turn until the bill is spent, or after the rival's own number of measurements."""
    steps = rival.num_steps * len(inside)
    best: dict[float, Choice] = {}
    snapshots: list[_Snapshot] = []
    left, start = sorted(checkpoints), time.perf_counter()

    def snapshot() -> _Snapshot:
        seconds = time.perf_counter() - start
        found = {b: rival.result(best[b], b, calibration, seconds) for b in inside if b in best}
        return _Snapshot(calibration.bill.spent.total, seconds, found)

    total, changed = 0.0, 0
    for number, (budget, choice) in enumerate(rival.steps(calibration, inside), start=1):
        best[budget] = choice
        before, total = total, calibration.bill.spent.total
        changed = number if total > before else changed
        if left and total >= left[0]:
            left = [point for point in left if point > total]
            snapshots.append(snapshot())
        done = number >= steps if bill is None else total >= bill and len(best) == len(inside)
        if done or number - changed > _STALE * len(inside):
            break
    end = snapshot()
    if not snapshots or snapshots[-1].flops != end.flops:
        snapshots.append(end)
    made = calibration.bill
    return _FrontierRun(
        rival.label, end.candidates, replace(made.spent), end.seconds, made.evaluations, tuple(snapshots), under
    )


def _check_any(label: str, found: Collection[float], under: Mapping[float, str]) -> None:
    """Raise if no budget can be met."""
    if not found:
        raise BudgetFloorError(f"The search {label!r} can meet none of the budgets: {next(iter(under.values()))}")
