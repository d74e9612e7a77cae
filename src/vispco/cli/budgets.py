"""Budgets as a person types them: 0.5 or 50%, several with commas; `--budget` and `--budgets` are the same option."""

from __future__ import annotations

from typing import Any

import typer

from vispco.errors import InvalidInputError

FRACTION = "A fraction of the unpruned FLOPs: 0.5 or 50%."
FRACTIONS = "Fractions of the unpruned FLOPs: 0.3,0.5 or 30%,50%."


def budget_option(help_text: str = FRACTION) -> Any:
    """An option for one budget."""
    return typer.Option("--budget", "--budgets", metavar="BUDGET", help=help_text)


def budgets_option(help_text: str = FRACTIONS) -> Any:
    """An option for several budgets."""
    return typer.Option("--budgets", "--budget", metavar="BUDGET,...", help=help_text)


def budgets_of(text: str) -> list[float]:
    """Fractions of the FLOPs, 0.2,50%: told before a model is loaded where one is none."""
    from vispco.cost.budget import parse_budgets  # noqa: PLC0415 - torch

    return [budget.fraction for budget in parse_budgets(text)]


def one_budget(text: str) -> float:
    """One fraction of the FLOPs."""
    found = budgets_of(text)
    if len(found) != 1:
        raise InvalidInputError(f"The budgets {text!r} were given where one is meant. Give one, such as 0.5 or 50%.")
    return found[0]


def window_of(text: str | None) -> tuple[float, float] | None:
    """The lowest and the highest budget: 0.5, or 30%,50%."""
    if text is None:
        return None
    low, comma, high = text.rpartition(",")
    if "," in low:
        raise InvalidInputError(f"The budget {text!r} was given. Give HIGH or LOW,HIGH: 0.5, or 0.3,0.5.")
    lowest = 0.0 if not comma or low.strip().rstrip("%") in ("0", "0.0") else one_budget(low)
    return lowest, one_budget(high)
