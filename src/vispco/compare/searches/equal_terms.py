"""Searches on equal terms: what others have found at the price of one, and what they pay for as much.

A search that ends cheap with a small hypervolume is not cheaper than one that pays more and finds more. So two questions are
asked of each: what had it found when it had spent as much as the reference, and what had it spent when it had found as much?
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class CostCurve:
    """Hypervolume reached after so much cost, ascending. A search that cannot be stopped has one place, its end."""

    label: str
    cost: tuple[float, ...]
    value: tuple[float, ...]


@dataclass(frozen=True)
class EqualTerms:
    """A search beside the reference.

    end_cost, end_value: its whole cost and its last hypervolume. at_cost: its hypervolume for at most the reference's
    cost; None where it has nothing so cheap. reaches_at: its cost when it first has the reference's hypervolume; None where it never has.
    """

    label: str
    end_cost: float
    end_value: float
    at_cost: float | None
    reaches_at: float | None


def equal_terms(curve: CostCurve, cost: float, value: float) -> EqualTerms:
    """Compare a curve with a reference that spent `cost` and reached `value`."""
    within = [found for spent, found in zip(curve.cost, curve.value, strict=True) if spent <= cost]
    enough = [spent for spent, found in zip(curve.cost, curve.value, strict=True) if found >= value]
    return EqualTerms(
        curve.label,
        curve.cost[-1],
        curve.value[-1],
        max(within) if within else None,
        min(enough) if enough else None,
    )


def text_rows(
    reference: CostCurve, others: Sequence[CostCurve], price: str = "FLOPs"
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Columns and rows of a table: the reference first. Costs are multiples of the reference's.

    price: what the costs are, for the header.
    """
    cost, value = reference.cost[-1], reference.value[-1]
    name = reference.label
    columns = ("search", "hypervolume", f"{price} (× {name})", f"at {name}'s cost", f"reaches {name}'s at")
    first: tuple[str, ...] = (name, f"{value:.4f}", "1.00", f"{value:.4f}", "1.00 ×")
    return columns, [first, *(_text_row(equal_terms(curve, cost, value), cost) for curve in others)]


def _text_row(found: EqualTerms, cost: float) -> tuple[str, ...]:
    return (
        found.label,
        f"{found.end_value:.4f}",
        _times(found.end_cost, cost),
        "–" if found.at_cost is None else f"{found.at_cost:.4f}",
        "not reached" if found.reaches_at is None else f"{_times(found.reaches_at, cost)} ×",
    )


def _times(spent: float, cost: float) -> str:
    return f"{spent / cost:.2f}" if cost > 0 else "–"
