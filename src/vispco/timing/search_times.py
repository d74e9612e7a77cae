"""What a search's budgets take on this machine: milliseconds to the first token, beside the FLOPs of its table."""

from collections.abc import Sequence
from typing import Any

from vispco.cost import Budget
from vispco.data.sample import Sample
from vispco.evaluation.frontier import Frontier
from vispco.evaluation.frontier_tables import Table
from vispco.pruner.pruner_spec import PrunerSpec
from vispco.timing.timing import BenchRow, BenchSettings, time_candidates

TIMES = "times.json"
PROMPTS = 4  # the largest pictures: where pruning matters
SETTINGS = BenchSettings(rounds=3, new_tokens=2)


def time_budgets(
    model: Any, processor: Any, samples: Sequence[Sample], spec: PrunerSpec, frontier: Frontier
) -> list[BenchRow]:
    """The unpruned model, and what a search found at each budget of its frontier, cheapest first, one prompt at a time."""
    points = sorted(frontier.points, key=lambda point: float(point.provenance["budget"]))
    budgets = dict.fromkeys(point.provenance.get("asked") or float(point.provenance["budget"]) for point in points)
    largest = sorted(samples, key=lambda sample: -sample.area)[:PROMPTS]
    candidates = {f"{Budget.of(budget)}": spec.at(budget) for budget in budgets}
    return time_candidates(model, processor, largest, candidates, SETTINGS)


def with_times(points: Table, timed: Sequence[BenchRow]) -> Table:
    """The table of a frontier, cheapest first, with the time to the first token of each row and how much faster it is."""
    columns, rows = points
    cells = [f"{row.ttft_ms['p50']:.1f} (×{row.speedup['ttft']:.2f})" for row in timed[1:]]
    if len(cells) != len(rows):
        return points
    shown = [(*row[:1], cell, *row[1:]) for row, cell in zip(rows, cells, strict=True)]
    return (*columns[:1], "first token, ms", *columns[1:]), shown


def time_line(timed: Sequence[BenchRow]) -> str:
    """What the times are about."""
    return (
        f"first token: median with its speed-up, unpruned {timed[0].ttft_ms['p50']:.1f} ms; the vision tower included; the "
        f"{PROMPTS} largest pictures, one prompt at a time"
    )
