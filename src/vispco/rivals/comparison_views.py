"""A comparison as text, column by column: what the command line and the report print."""

from __future__ import annotations

from dataclasses import dataclass

from vispco.rivals.comparison import Comparison, Row

UNITS = (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3))


@dataclass(frozen=True)
class Table:
    """Header and rows of equal length. The first column is text, all others are numbers, to be set to the right."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def comparison_table(comparison: Comparison) -> Table:
    """Method, FLOPs, their fraction, the search's FLOPs, seconds and evaluations, accuracy by task and on average.

    Accuracies are percentages; the average stands with its 95 % interval.
    """
    cost = comparison.cost
    columns = ("method", f"FLOPs ({cost})", "fraction", "search FLOPs", "search s", "evaluations")
    rows = tuple(_line(row, cost, comparison.tasks) for row in comparison.rows)
    return Table((*columns, *comparison.tasks, "average"), rows)


def narrow_tables(comparison: Comparison) -> tuple[Table, Table]:
    """The same in two, for a terminal: what was found and what it cost; accuracy, on average and by task."""
    whole = comparison_table(comparison)
    first, last = len(whole.columns) - len(comparison.tasks) - 1, len(whole.columns) - 1

    def taken(places: list[int]) -> Table:
        return Table(
            tuple(whole.columns[i] for i in places), tuple(tuple(row[i] for i in places) for row in whole.rows)
        )

    return taken([*range(first)]), taken([0, last, *range(first, last)])


def _line(row: Row, cost: str, tasks: tuple[str, ...]) -> tuple[str, ...]:
    found = row.evaluation
    by_task = {task.task: task.accuracy for task in found.tasks}
    return (
        row.method,
        flops_text(found.flops[cost]),
        f"{found.fraction[cost]:.3f}",
        flops_text(row.spent.total),
        f"{row.seconds:.1f}",
        str(row.evaluations),
        *(f"{100 * by_task[task]:.1f}" if task in by_task else "-" for task in tasks),
        f"{100 * found.accuracy:.1f} [{100 * found.low:.1f}, {100 * found.high:.1f}]",
    )


def flops_text(flops: float) -> str:
    """3.56e12 -> '3.56 T'."""
    for letter, unit in UNITS:
        if flops >= unit:
            return f"{flops / unit:.3g} {letter}" if flops < 999.5 * unit else f"{flops / unit:.0f} {letter}"
    return f"{flops:.0f}"


@dataclass(frozen=True)
class SearchCostInfo:
    """Columns of equal length, in the order of the comparison, without the unpruned model.

    relative: search FLOPs in unpruned prompts of the test set's mean size: the same axis for models of any size.
    full_accuracy: the unpruned model's, for a line across the plot. A search may have cost nothing: mind a log axis.
    """

    methods: tuple[str, ...]
    flops: tuple[float, ...]
    relative: tuple[float, ...]
    seconds: tuple[float, ...]
    accuracy: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    fraction: tuple[float, ...]
    full_accuracy: float
    budget: float
    cost: str


def search_cost_info(comparison: Comparison) -> SearchCostInfo:
    """The data of the plot; the first row of a comparison is the unpruned model."""
    full, *rows = comparison.rows
    name = comparison.cost
    prompt = full.evaluation.flops[name]
    return SearchCostInfo(
        methods=tuple(row.method for row in rows),
        flops=tuple(row.spent.total for row in rows),
        relative=tuple(row.spent.total / prompt for row in rows),
        seconds=tuple(row.seconds for row in rows),
        accuracy=tuple(row.evaluation.accuracy for row in rows),
        low=tuple(row.evaluation.low for row in rows),
        high=tuple(row.evaluation.high for row in rows),
        fraction=tuple(row.evaluation.fraction[name] for row in rows),
        full_accuracy=full.evaluation.accuracy,
        budget=comparison.budget,
        cost=name,
    )
