"""The paper's tables and statements, from the folders that `paper_steps` fills."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from vispco.compare.methods.table import MethodTableRow
from vispco.core.runs import files
from vispco.evaluation.frontier import Frontier
from vispco.evaluation.frontier_tables import Table
from vispco.evaluation.result import Evaluation
from vispco.report.paper.paper_steps import (
    BUDGETS,
    COMPARED,
    GRID,
    HALF,
    JOINT,
    KERNELS,
    LEARNED,
    METHODS,
    OWN,
    SAMPLED,
    TIMES,
    kernel_folder,
    searched_folder,
)
from vispco.report.run_files import RunFiles, read


@dataclass(frozen=True)
class _Statement:
    """A claim of the paper, what was measured here, and whether it holds: yes, no, or within noise."""

    claim: str
    measured: str
    holds: str

    def __str__(self) -> str:
        return f"{self.claim}: {self.measured} ({self.holds})"


@dataclass(frozen=True)
class PaperRuns:
    """The finished runs of one model."""

    model: str
    folder: Path

    @cached_property
    def runs(self) -> dict[str, RunFiles]:
        names = [JOINT, GRID, SAMPLED, OWN, COMPARED, *map(searched_folder, METHODS), *map(kernel_folder, KERNELS)]
        return {name: read(self.folder / name) for name in dict.fromkeys(names)}

    @cached_property
    def grid(self) -> Frontier:
        return next(iter(self.runs[GRID].swept.values()))

    @cached_property
    def unpruned(self) -> Evaluation:
        found = self.runs[JOINT].unpruned
        assert found is not None  # noqa: S101 - every finished search has written it
        return found

    def frontier(self, name: str) -> Frontier:
        found = self.runs[name].searched
        assert found is not None  # noqa: S101 - the step that writes it has ended
        return found

    def at(self, name: str, budget: float) -> Evaluation | None:
        """What a search found for a budget, on the test items."""
        points = self.frontier(name).points
        return next((point.evaluation for point in points if point.provenance.get("budget") == budget), None)

    def sampled(self, method: str, budget: float) -> MethodTableRow | None:
        """Random schedules of a method that meet a budget: mean and deviation."""
        table = self.runs[SAMPLED].methods
        return None if table is None else table.row(method, "sampled", budget)

    @cached_property
    def times(self) -> list[Mapping[str, Any]]:
        return list(
            files.read_json(self.folder / TIMES, what="table of times", remedy="Run the command again.")["rows"]
        )

    def tables(self) -> dict[str, Table]:
        """Tables 1, 2, 4 and 5 by title. Accuracies are percentages; budgets are of the language model's FLOPs."""
        return {
            "Table 1. Methods with and without VisPCO, by budget": self._methods(),
            f"Table 2. Searches at {HALF:.0%} of the FLOPs": self._searches(),
            f"Table 4. Time at {HALF:.0%} of the FLOPs": self._times(),
            "Table 5. Families of curves": self._kernels(),
        }

    def _methods(self) -> Table:
        tasks = tuple(task.task for task in self.unpruned.tasks)
        rows = [("", "unpruned", *_by_task(self.unpruned))]
        for budget in BUDGETS:
            for method in METHODS:
                row = self.sampled(method, budget)
                by_task = {} if row is None else row.tasks
                average = (
                    "–"
                    if row is None or row.accuracy is None
                    else f"{_percent(row.accuracy)} ±{_percent(row.deviation)}"
                )
                cells = (_percent(by_task[task][0]) if task in by_task else "–" for task in tasks)
                rows.append((f"{budget:.0%}", method, average, *cells))
                rows.append(
                    (f"{budget:.0%}", f"{method} + VisPCO", *_by_task(self.at(searched_folder(method), budget), tasks))
                )
            rows.append((f"{budget:.0%}", "joint search", *_by_task(self.at(JOINT, budget), tasks)))
        return ("budget", "method", "average", *tasks), tuple(rows)

    def _searches(self) -> Table:
        comparison = self.runs[COMPARED].comparison
        assert comparison is not None  # noqa: S101 - the step that writes it has ended
        rows = []
        for row in comparison.rows:
            found, cost = row.evaluation, comparison.cost
            rows.append((row.method, f"{100 * found.fraction[cost]:.1f}", f"{row.seconds:.1f}", *_by_task(found)))
        table = self.runs[OWN].methods
        for method in LEARNED:
            own = None if table is None else table.row(method, "scaled", HALF)
            if own is not None and own.accuracy is not None and own.fraction is not None:
                by_task = (_percent(values[0]) for values in own.tasks.values())
                rows.append((method, f"{100 * own.fraction:.1f}", "–", _percent(own.accuracy), *by_task))
        return ("method", "FLOPs, %", "search, s", "average", *comparison.tasks), tuple(rows)

    def _times(self) -> Table:
        columns = ("", "time to first token, ms", "of it the vision tower, ms", "faster, ×", "tokens/s", "average")
        accuracies = [self.unpruned, self.at(searched_folder("fastv"), HALF), self.at(JOINT, HALF)]
        rows = []
        for row, found in zip(self.times, accuracies, strict=False):
            rows.append((
                str(row["configuration"]), f"{row['ttft_ms']['p50']:.1f}", f"{row['parts_ms']['vision']:.1f}",
                f"{row['speedup']['ttft']:.2f}", f"{row['decode_tokens_per_second']:.0f}", _by_task(found)[0],
            ))  # fmt: skip
        return columns, tuple(rows)

    def _kernels(self) -> Table:
        rows = [(name, *(_by_task(self.at(kernel_folder(name), budget))[0] for budget in BUDGETS)) for name in KERNELS]
        return ("curves", *(f"{budget:.0%}" for budget in BUDGETS)), tuple(rows)

    def statements(self) -> list[_Statement]:
        """What the paper says, beside what was measured on this model."""
        return [*self._gains(), *self._steps_over_single(), self._near_the_frontier(), self._search_time()]

    def summary(self) -> str:
        """One paragraph: which statements hold on this model, which do not, and by how much."""
        kinds = {"yes": "hold", "within noise": "cannot be told from noise", "no": "do not hold"}
        kinds["not measured"] = "could not be measured"
        parts = []
        for verdict, phrase in kinds.items():
            found = [f"{each.claim} ({each.measured})" for each in self.statements() if each.holds == verdict]
            if found:
                parts.append(f"{len(found)} {phrase}: {'; '.join(found)}.")
        return f"Of the paper's statements, on {self.model}, {' '.join(parts)}"

    def _gains(self) -> list[_Statement]:
        found = []
        for budget in (0.9, 0.5, 0.1):
            pairs = [(self.at(searched_folder(method), budget), self.sampled(method, budget)) for method in METHODS]
            gains = [
                (own.accuracy - row.accuracy, math.hypot(own.high - own.low, 2 * (row.deviation or 0.0)) / 2)
                for own, row in pairs
                if own is not None and row is not None and row.accuracy is not None
            ]
            claim = f"VisPCO is better than sampled configurations at {budget:.0%} of the FLOPs"
            if not gains:
                found.append(
                    _Statement(claim, "no sampled configuration is so cheap: the floor lies above", "not measured")
                )
                continue
            mean = sum(gain for gain, _ in gains) / len(gains)
            error = math.sqrt(sum(half**2 for _, half in gains)) / len(gains)
            found.append(_Statement(claim, f"{100 * mean:+.1f} points ±{100 * error:.1f}", _verdict(mean, error)))
        return found

    def _steps_over_single(self) -> list[_Statement]:
        found = []
        for budget in (each for each in BUDGETS if each < HALF):
            steps, single = (self.at(kernel_folder(name), budget) for name in ("multi-step", "single"))
            if steps is not None and single is not None:
                gain = steps.accuracy - single.accuracy
                error = math.hypot(steps.high - steps.low, single.high - single.low) / 2
                claim = f"multi-step curves beat a single layer at {budget:.0%}"
                found.append(_Statement(claim, f"{100 * gain:+.1f} points ±{100 * error:.1f}", _verdict(gain, error)))
        return found

    def _near_the_frontier(self) -> _Statement:
        """The published search of FastV beside the best of the grid at the same FLOPs."""
        gaps, errors = [], []
        for point in self.frontier(searched_folder("fastv")).points:
            own = point.evaluation
            rivals = [
                each.evaluation
                for each in self.grid.points
                if each.evaluation.fraction["exact"] <= own.fraction["exact"]
            ]
            if rivals:
                best = max(rivals, key=lambda each: each.accuracy)
                gaps.append(own.accuracy - best.accuracy)
                errors.append(math.hypot(own.high - own.low, best.high - best.low) / 2)
        gap = min(gaps, default=math.nan)
        error = errors[gaps.index(gap)] if gaps else math.nan
        measured = f"at the worst budget {100 * gap:+.1f} points ±{100 * error:.1f} against the best of {len(self.grid.points)} in hindsight"
        return _Statement("the predicted frontier is near the empirical one", measured, "yes" if gap > -error else "no")

    def _search_time(self) -> _Statement:
        searched = float(self.runs[searched_folder("fastv")].config["search_seconds"])
        grid = sum(point.evaluation.seconds for point in self.grid.points)
        ratio = grid / searched
        measured = f"{searched:.0f} s for all budgets, {grid:.0f} s for a grid of {len(self.grid.points)}: ×{ratio:.1f}"
        return _Statement("a search takes 1/48 of the grid's time", measured, "yes" if ratio >= 48 else "no")


def models_table(models: list[PaperRuns]) -> Table:
    """Table 3: models side by side, sampled configurations of FastV beside the search at half of the FLOPs."""
    rows = []
    for each in models:
        row = each.sampled("fastv", HALF)
        drawn = "–" if row is None or row.accuracy is None else f"{_percent(row.accuracy)} ±{_percent(row.deviation)}"
        found = [_by_task(each.at(name, HALF))[0] for name in (searched_folder("fastv"), JOINT)]
        rows.append((each.model, _percent(each.unpruned.accuracy), drawn, *found))
    return ("model", "unpruned", "fastv, sampled", "fastv + VisPCO", "joint search"), tuple(rows)


def _verdict(gain: float, error: float) -> str:
    return "within noise" if abs(gain) <= error else "yes" if gain > 0 else "no"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f}"


def _by_task(found: Evaluation | None, tasks: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The average, with its 95 % interval, and the accuracy of each task."""
    if found is None:
        return ("under the floor", *["–"] * len(tasks))
    average = f"{_percent(found.accuracy)} [{_percent(found.low)}, {_percent(found.high)}]"
    return (average, *(_percent(task.accuracy) for task in found.tasks))
