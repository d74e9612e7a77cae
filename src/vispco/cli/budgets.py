"""Budgets as a person types them: 0.5 or 50%, several with commas; `--budget` and `--budgets` are the same option."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import typer

from vispco.errors import InvalidInputError

if TYPE_CHECKING:
    from vispco.cost import Budget

Convert: TypeAlias = "Callable[[Budget], float]"
FRACTION = "A fraction of the unpruned FLOPs: 0.5 or 50%."
FRACTIONS = "Fractions of the unpruned FLOPs: 0.3,0.5 or 30%,50%."


def budget_option(help_text: str = FRACTION) -> Any:
    """An option for one budget."""
    return typer.Option("--budget", "--budgets", metavar="BUDGET", help=help_text)


def budgets_option(help_text: str = FRACTIONS) -> Any:
    """An option for several budgets."""
    return typer.Option("--budgets", "--budget", metavar="BUDGET,...", help=help_text)


def budgets_of(text: str, convert: Convert | None = None) -> list[float]:
    """Fractions of the FLOPs, 0.2,50%: told before a model is loaded where one is none.

    convert: makes fractions of budgets of time and bytes (0.6t, 40ms, 120MB), which are refused without it.
    """
    from vispco.cost.budget import parse_budgets  # noqa: PLC0415 - torch

    found = parse_budgets(text)
    return [b.fraction if b.kind == "flops" or convert is None else convert(b) for b in found]


def one_budget(text: str, convert: Convert | None = None) -> float:
    """One fraction of the FLOPs."""
    found = budgets_of(text, convert)
    if len(found) != 1:
        raise InvalidInputError(f"The budgets {text!r} were given where one is meant. Give one, such as 0.5 or 50%.")
    return found[0]


def deployed_budget(text: str, run: str | None) -> float | str:
    """One budget for a pruner: of what a run found any (mean:0.2,max:0.5, 40ms), else a fraction of the FLOPs."""
    if run is None:
        return one_budget(text)
    from vispco.cost.budget import Budget  # noqa: PLC0415 - torch

    return Budget.of(text).plain


def window_of(text: str | None, convert: Convert | None = None) -> tuple[float, float] | None:
    """The lowest and the highest budget: 0.5, or 30%,50%."""
    if text is None:
        return None
    low, comma, high = text.rpartition(",")
    if "," in low:
        raise InvalidInputError(f"The budget {text!r} was given. Give HIGH or LOW,HIGH: 0.5, or 0.3,0.5.")
    lowest = 0.0 if not comma or low.strip().rstrip("%") in ("0", "0.0") else one_budget(low, convert)
    return lowest, one_budget(high, convert)


def not_yet(_: Budget) -> float:
    """Any fraction, for a budget that is looked at again when its model is there."""
    return 0.5


def has_other_units(text: str) -> bool:
    """Whether one of the budgets is of time or of bytes."""
    from vispco.cost.budget import parse_budgets  # noqa: PLC0415 - torch

    return any(budget.kind != "flops" for budget in parse_budgets(text))
