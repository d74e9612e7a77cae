"""Results of a demo as rows of one table: by budget, what the search and the sweep reach, and measured times."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vispco.core.runs.files import read_json_object
from vispco.evaluation.result import Evaluation
from vispco.pruner.search_files import UNPRUNED
from vispco.report.demo.demo_job import BENCH
from vispco.report.progress import picked
from vispco.report.run_files import read
from vispco.timing.large_layers import large_layers_text


def outcome(folder: str | Path) -> list[dict[str, Any]]:
    """Rows by budget: those that were searched, those that were timed, and 1 for the unpruned model's time.

    Cost and accuracy of what was searched, the best of the sweep that costs no more, and the time to the first token
    where this budget was timed.
    """
    files = read(folder)
    timed = {row["budget"]: row for row in read_json_object(Path(folder) / BENCH)["rows"]}
    budgets = sorted({*map(float, files.config["budgets"]), *(float(b) for b in timed if b is not None), 1.0})
    swept = next(iter(files.swept.values()), None)
    whole = Evaluation.from_dict(read_json_object(Path(folder) / UNPRUNED))
    points = () if files.searched is None else files.searched.points
    searched = [(float(point.provenance["budget"]), point.evaluation) for point in points]
    rows = []
    for budget in budgets:
        found = whole if budget >= 1.0 else next((e for b, e in searched if abs(b - budget) < 1e-9), None)
        best = None if swept is None or budget >= 1.0 else picked(swept, budget)
        clock = timed.get(None if budget >= 1.0 else budget)
        rows.append(
            {
                "budget": budget,
                "fraction": None if found is None else found.fraction["exact"],
                **{name: getattr(found, name, None) for name in ("accuracy", "low", "high")},
                "empirical": None if best is None else best.accuracy,
                "ttft_ms": None if clock is None else clock["ttft_ms"]["p50"],
                "speedup": None if clock is None else clock["speedup"]["ttft"],
                "implied": None if clock is None else clock["speedup"]["ttft_implied"],
            }
        )
    return rows


def outcome_table(rows: Sequence[Mapping[str, Any]]) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """The rows for people: columns and cells."""
    columns = ("budget", "FLOPs", "searched", "of a sweep", "TTFT", "×", "× by FLOPs")
    cells = []
    for row in rows:
        interval = "" if row["low"] is None or row["high"] is None else f" ± {50 * (row['high'] - row['low']):.1f}"
        cells.append(
            (
                "unpruned" if row["budget"] >= 1 else f"{row['budget']:.0%}",
                _percent(row["fraction"]),
                _percent(row["accuracy"]) + interval,
                _percent(row["empirical"]),
                "" if row["ttft_ms"] is None else f"{row['ttft_ms']:.2f}",
                "" if row["speedup"] is None else "no gain" if row["speedup"] < 1.0 else f"{row['speedup']:.2f}",
                "" if row["implied"] is None else f"{row['implied']:.2f}",
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


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:.1%}"
