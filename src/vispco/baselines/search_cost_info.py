"""What a plot of accuracy against search cost shows, as numbers; drawing it is the plots' affair."""

from __future__ import annotations

from dataclasses import dataclass

from vispco.baselines.comparison import Comparison


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
