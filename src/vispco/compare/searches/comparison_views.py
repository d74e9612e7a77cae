"""A comparison as text tables, for the command line and the report, and as the data of a plot.

On equal terms: a search that ends cheap with a small hypervolume is not cheaper than one that pays more and finds more.
So
two questions are asked of each: what had it found when it had spent as much as the reference, and what had it spent
when it had found as much?
"""

from collections.abc import Sequence
from dataclasses import dataclass

from vispco.compare.searches.search_comparison import Comparison
from vispco.evaluation.frontier_tables import Table

REFERENCE = "vispco"  # the search that others are set beside
_UNITS = (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3))


def comparison_table(comparison: Comparison) -> Table:
    """Return one table: method, FLOPs, their fraction, FLOPs, seconds and evaluations of the search, accuracies.

    Accuracies are percentages, for each task and on average, the average with its 95 % interval.
    """
    cost = comparison.cost
    columns = ("method", f"FLOPs ({cost})", "fraction", "search FLOPs", "search s", "evaluations")
    rows = []
    for row in comparison.rows:
        found = row.evaluation
        by_task = {task.task: f"{100 * task.accuracy:.1f}" for task in found.tasks}
        rows.append(
            (
                row.method,
                _flops_text(found.flops[cost]),
                f"{found.fraction[cost]:.3f}",
                _flops_text(row.spent.total),
                f"{row.seconds:.1f}",
                str(row.evaluations),
                *(by_task.get(task, "-") for task in comparison.tasks),
                f"{100 * found.accuracy:.1f} [{100 * found.low:.1f}, {100 * found.high:.1f}]",
            )
        )
    return (*columns, *comparison.tasks, "average"), tuple(rows)


def narrow_tables(comparison: Comparison) -> tuple[Table, Table]:
    """Return the same as two narrower tables: FLOPs and the cost of the search; accuracy on average and by task."""
    columns, rows = comparison_table(comparison)
    first, last = len(columns) - len(comparison.tasks) - 1, len(columns) - 1

    def select(places: list[int]) -> Table:
        return tuple(columns[i] for i in places), tuple(tuple(row[i] for i in places) for row in rows)

    return select([*range(first)]), select([0, last, *range(first, last)])


def equal_terms_table(comparison: Comparison, reference: str = REFERENCE) -> Table | None:
    """Return what each search reached at the cost of the reference, and what it paid for as much.

    None for a comparison of one budget, or one without the reference.
    """
    curves = {}
    for row in comparison.rows:
        if row.reached:
            flops, values = zip(*((each.flops, each.hypervolume) for each in row.reached), strict=True)
            curves[row.method] = CostCurve(row.method, flops, values)
    own = curves.pop(reference, None)
    return None if own is None else equal_terms_rows(own, list(curves.values()))


@dataclass(frozen=True)
class CostCurve:
    """Hypervolume reached at each cost, ascending. A search that cannot be stopped has one point, its end."""

    label: str
    cost: tuple[float, ...]
    value: tuple[float, ...]


def equal_terms_rows(
    reference: CostCurve, others: Sequence[CostCurve], price: str = "FLOPs"
) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Columns and rows of a table: the reference first. Costs are multiples of the reference's.

    Of each other one: its last hypervolume and its whole cost; its hypervolume for at most the reference's cost, –
    where it has nothing so cheap; its cost when it first has the reference's hypervolume. price: what the costs are,
    for the header.
    """
    cost, value, name = reference.cost[-1], reference.value[-1], reference.label
    columns = ("search", "hypervolume", f"{price} (× {name})", f"at {name}'s cost", f"reaches {name}'s at")
    rows: list[tuple[str, ...]] = [(name, f"{value:.4f}", "1.00", f"{value:.4f}", "1.00 ×")]

    def times(spent: float) -> str:
        return f"{spent / cost:.2f}" if cost > 0 else "–"

    for curve in others:
        points = list(zip(curve.cost, curve.value, strict=True))
        within = [found for spent, found in points if spent <= cost]
        enough = [spent for spent, found in points if found >= value]
        at_cost = f"{max(within):.4f}" if within else "–"
        reaches = f"{times(min(enough))} ×" if enough else "not reached"
        rows.append((curve.label, f"{curve.value[-1]:.4f}", times(curve.cost[-1]), at_cost, reaches))
    return columns, tuple(rows)


def _flops_text(flops: float) -> str:
    """Format FLOPs with a unit: 3.56e12 -> '3.56 T'."""
    for letter, unit in _UNITS:
        if flops >= unit:
            return f"{flops / unit:.3g} {letter}" if flops < 999.5 * unit else f"{flops / unit:.0f} {letter}"
    return f"{flops:.0f}"


@dataclass(frozen=True)
class SearchCostInfo:
    """The data of a plot of accuracy against search cost, without the unpruned model, in the comparison's order.

    relative: search FLOPs divided by those of an unpruned prompt of the test set's mean size, for models of any size.
    full_accuracy: of the unpruned model, for a line across the plot. A search may have cost nothing, which a logarithmic
        axis cannot show.
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
    """Compute the data of the plot. The first row of a comparison is the unpruned model."""
    full, *rows = comparison.rows
    cost = comparison.cost
    prompt = full.evaluation.flops[cost]
    return SearchCostInfo(
        methods=tuple(row.method for row in rows),
        flops=tuple(row.spent.total for row in rows),
        relative=tuple(row.spent.total / prompt for row in rows),
        seconds=tuple(row.seconds for row in rows),
        accuracy=tuple(row.evaluation.accuracy for row in rows),
        low=tuple(row.evaluation.low for row in rows),
        high=tuple(row.evaluation.high for row in rows),
        fraction=tuple(row.evaluation.fraction[cost] for row in rows),
        full_accuracy=full.evaluation.accuracy,
        budget=comparison.budget,
        cost=cost,
    )
