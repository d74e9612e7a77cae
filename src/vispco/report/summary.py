"""The opening of a page in plain words: how much less work, which answer, how much faster. And which scorer chose where."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from vispco.core.schedule import Schedule
from vispco.evaluation.frontier import Frontier
from vispco.evaluation.frontier_tables import cheapest_near
from vispco.report.payload import ChainRow, Example, Summary
from vispco.report.run_files import RunFiles
from vispco.scorers import Chain

_EVEN = 1e-3  # a mean retention that falls by less is rounding to whole tokens
_SAME_COST = 0.02  # a timed row stands for a point whose share of the FLOPs differs by no more
_FASTER = 1.05  # less is within the spread of a short timing
_AS_IMPLIED = 0.9  # of the speed-up by arithmetic; below it, the page says what hides the rest


def summarize(files: RunFiles, label: str, frontier: Frontier, examples: Sequence[Example]) -> Summary | None:
    """The cheapest searched point that loses next to nothing, at its cost, with its measured time; None without one.

    The picture that it begins with is answered rightly with and without pruning, and has the most tokens of those.
    """
    cost = frontier.axis.model
    point = None if files.unpruned is None else cheapest_near(frontier, files.unpruned.accuracy, cost)
    if point is None or files.unpruned is None:
        return None
    fraction = point.evaluation.fraction[cost]
    budget = float(point.provenance.get("budget") or fraction)
    alike = []
    for place, one in enumerate(examples):
        if one.run == label:
            affordable = [state for state in one.states if state.budget <= budget + 1e-9]
            state = affordable[-1] if affordable else one.states[0]  # the dearest within the budget, else the cheapest
            right = state.correct is not False and one.unpruned_correct is not False
            alike += [place] if right and state.answer == one.unpruned else []
    example = max(alike, key=lambda place: examples[place].rows * examples[place].columns, default=None)
    row = _timed(files.bench, fraction)
    answer = "the same answer" if example is not None else "nearly the same accuracy"
    speed = None if row is None else float(row["speedup"]["ttft"])
    pace = "" if speed is None else f", {speed:.2f}\u202f× as fast" if speed >= _FASTER else ", but no faster here"
    items = sum(task.n for task in point.evaluation.tasks)
    return Summary(
        headline=f"{fraction * 100:.0f}\u202f% of the work, {answer}{pace}",
        accuracy=f"Over {items} test questions: {_percent(point.accuracy)} right, against "
        f"{_percent(files.unpruned.accuracy)} with every visual token in every layer.",
        time=_time(row),
        budget=max(budget, fraction),
        example=example,
    )


def _timed(bench: Any, fraction: float) -> dict[str, Any] | None:
    """The timed row whose cost is that of the point; None where nothing like it was timed."""
    rows = bench.get("rows") if isinstance(bench, dict) else bench
    known = [
        row
        for row in (rows if isinstance(rows, list) else [])
        if isinstance(row, dict) and isinstance(row.get("flops"), float) and isinstance(row.get("speedup"), dict)
        and isinstance(row["speedup"].get("ttft"), float)
        and abs(row["flops"] - fraction) <= _SAME_COST
    ]  # fmt: skip
    return min(known, key=lambda row: abs(row["flops"] - fraction), default=None)


def _time(row: dict[str, Any] | None) -> str:
    """What was measured of time, and what hides the rest where arithmetic promises more."""
    if row is None:
        return "How much faster that is on this machine was not measured; `vispco bench` does."
    speed, implied = row["speedup"]["ttft"], row["speedup"].get("ttft_implied")
    measured = f"The first token comes in {row['ttft_ms']['p50']:.0f}\u202fms" if "ttft_ms" in row else "Measured"
    told = f"{measured}: {speed:.2f}\u202f× as fast."
    if not isinstance(implied, float) or speed >= _AS_IMPLIED * implied:
        return told
    scoring = (row.get("parts_ms") or {}).get("scoring")
    choosing = (
        f", and choosing tokens takes {scoring:.1f}\u202fms" if isinstance(scoring, float) and scoring > 0 else ""
    )
    return (
        f"{told} The arithmetic alone would give {implied:.2f}\u202f×. Pruning does not shorten the cost of starting "
        f"operations{choosing}: that weighs most in small layers and small batches."
    )


def _percent(value: float) -> str:
    return f"{value * 100:.1f}\u202f%"


def chain_rows(found: Any, schedule: Schedule) -> tuple[ChainRow, ...]:
    """The chains of a joint search's point, with the scorer that drops something before each block of a cut tower and each layer."""

    def names(kept: Sequence[float], stages: Sequence[tuple[int, str]]) -> tuple[str, ...]:
        last = [
            max((stage for stage in stages if stage[0] <= place), default=(0, "")) for place in range(len(kept) - 1)
        ]
        falls = [after < before - _EVEN for before, after in pairwise(kept)]
        return tuple(name if fall else "" for (_, name), fall in zip(last, falls, strict=True))

    rows, tower = [], schedule.tower or ()
    for each in found if isinstance(found, list) else ():
        inside = [(block, scorer.name) for block, scorer in Chain.of(each["chain"]).tower] if tower else []
        stages = [(stage["layer"], stage["scorer"]) for stage in each["stages"]]
        layers = names([tower[-1] if tower else 1.0, *each["retention"]], stages)
        rows.append(ChainRow(str(each["chain"]), float(each["share"]), layers, names([1.0, *tower], inside)))
    return tuple(rows)
