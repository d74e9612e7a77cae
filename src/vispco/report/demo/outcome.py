"""Results of a demo as rows of one table: by budget, what the search and the sweep reach, and measured times."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from vispco.core.errors import InvalidInputError
from vispco.core.runs.files import read_json_object
from vispco.evaluation.frontier import Frontier
from vispco.evaluation.result import Evaluation
from vispco.pruner.run_files import UNPRUNED
from vispco.report.demo.run_demo import BENCH
from vispco.report.run_files import read
from vispco.timing.large_layers import large_layers_text


@dataclass(frozen=True)
class OutcomeRow:
    """At one budget: cost and accuracy of what was searched, and the best of the sweep that costs no more.

    ttft_ms, speedup, implied: where this budget was timed.
    """

    budget: float
    fraction: float | None
    accuracy: float | None
    low: float | None
    high: float | None
    empirical: float | None
    ttft_ms: float | None = None
    speedup: float | None = None
    implied: float | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def outcome(folder: str | Path) -> list[OutcomeRow]:
    """Rows by budget: those that were searched, those that were timed, and 1 for the unpruned model's time."""
    files = read(folder)
    timed = {row["budget"]: row for row in read_json_object(Path(folder) / BENCH)["rows"]}
    budgets = sorted({*map(float, files.config["budgets"]), *(float(b) for b in timed if b is not None), 1.0})
    swept = next(iter(files.swept.values()), None)
    rows = []
    whole = Evaluation.from_dict(read_json_object(Path(folder) / UNPRUNED))
    for budget in budgets:
        found = whole if budget >= 1.0 else _at(files.searched, budget)
        clock = timed.get(None if budget >= 1.0 else budget)
        rows.append(
            OutcomeRow(
                budget,
                None if found is None else found.fraction["exact"],
                None if found is None else found.accuracy,
                None if found is None else found.low,
                None if found is None else found.high,
                None if swept is None or budget >= 1.0 else _accuracy(swept, budget),
                None if clock is None else clock["ttft_ms"]["p50"],
                None if clock is None else clock["speedup"]["ttft"],
                None if clock is None else clock["speedup"]["ttft_implied"],
            )
        )
    return rows


def _at(frontier: Frontier | None, budget: float) -> Evaluation | None:
    """The searched point of this budget; None for a budget in between."""
    points = () if frontier is None else frontier.points
    return next((p.evaluation for p in points if abs(float(p.provenance["budget"]) - budget) < 1e-9), None)


def _accuracy(frontier: Frontier, budget: float) -> float | None:
    try:
        return frontier.pick(budget).accuracy
    except InvalidInputError:
        return None


def outcome_table(rows: Sequence[OutcomeRow]) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """The rows for people: columns and cells."""
    columns = ("budget", "FLOPs", "searched", "of a sweep", "TTFT", "×", "× by FLOPs")
    cells = []
    for row in rows:
        interval = "" if row.low is None or row.high is None else f" ± {50 * (row.high - row.low):.1f}"
        cells.append(
            (
                "unpruned" if row.budget >= 1 else f"{row.budget:.0%}",
                _percent(row.fraction),
                _percent(row.accuracy) + interval,
                _percent(row.empirical),
                "" if row.ttft_ms is None else f"{row.ttft_ms:.2f}",
                gain(row.speedup),
                "" if row.implied is None else f"{row.implied:.2f}",
            )
        )
    return columns, cells


def caption(folder: Path) -> str:
    """The batch at which the times are, and who chose it."""
    found = read_json_object(folder / BENCH)
    by = ", chosen by a profile of this device" if found.get("chosen_by_profile") else ""
    batch = f"batch of {found.get('batch_size')}{by}"
    return f"TTFT: time to first token in ms, {batch}; ×: how much faster than unpruned"


def large_layers(folder: Path) -> str:
    """What layers of a large model's size gained, in a sentence; empty for a demo of before this was timed."""
    found = read_json_object(folder / BENCH).get("large_layers")
    return "" if found is None else large_layers_text(found)


def gain(speedup: float | None) -> str:
    """The speed-up as text, or 'no gain'."""
    return "" if speedup is None else "no gain" if speedup < 1.0 else f"{speedup:.2f}"


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:.1%}"
