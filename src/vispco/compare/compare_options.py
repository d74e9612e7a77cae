"""`MethodsOptions` and `SearchesOptions`: methods, searches and budgets of a comparison, as a user types them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vispco.pruner.pruning_options import FRACTION, Cost, Scorer, budgets_of, budgets_option, one_budget

if TYPE_CHECKING:
    from vispco.compare.methods import TableSettings


@dataclass(frozen=True, kw_only=True)
class MethodsOptions:
    """The options of `vispco compare methods`; `settings` are those of a table."""

    budgets: Annotated[str, budgets_option()] = "0.9,0.5,0.3,0.2"
    methods: Annotated[
        str | None,
        typer.Option(
            help="Names with commas between them (default: all), or scorers and chains (divprune+fastv): {methods}."
        ),
    ] = None
    draws: Annotated[int, typer.Option(min=0, help="Random schedules of each method at each budget.")] = 3
    search: Annotated[
        str, typer.Option(help="The search on top of each method, or none; see vispco compare searches.")
    ] = "vispco-halving"
    search_budgets: Annotated[str, typer.Option(help="The budgets at which it is run.")] = "0.5,0.3"
    compensations: Annotated[
        str, typer.Option(help="Tried on each method at those budgets (see --compensate of evaluate), or none.")
    ] = "0.5,0.75,1"
    rounds: Annotated[int, typer.Option(min=0, help="Of timing, after one that warms up; 0 for none.")] = 3
    seed: Annotated[int, typer.Option(min=0, help="Of the schedules that are drawn.")] = 0
    against: Annotated[
        str,
        typer.Option(help="The row that all are held against on the same items, as the table names it: 'fastv @50%'."),
    ] = "unpruned"

    def check(self) -> None:
        """Refuse budgets that cannot be read."""
        budgets_of(self.budgets)
        budgets_of(self.search_budgets)

    def settings(self) -> TableSettings:
        """A wrong name is refused here, before a model is loaded."""
        from vispco.compare import searches  # noqa: PLC0415 - torch
        from vispco.compare.methods import TableSettings  # noqa: PLC0415
        from vispco.compare.methods.fill import chosen_methods  # noqa: PLC0415
        from vispco.scorers import check_compensation  # noqa: PLC0415
        from vispco.scorers.chain import split_outside  # noqa: PLC0415

        betas = [each.strip() for each in self.compensations.split(",") if each.strip() and each.strip() != "none"]
        given = None if self.methods is None else [name.strip() for name in split_outside(self.methods, ",")]
        if self.search != "none":
            searches.get(self.search)
        return TableSettings(
            chosen_methods(None if given is None else [name for name in given if name]),
            tuple(budgets_of(self.budgets)),
            self.draws,
            None if self.search == "none" else self.search,
            tuple(budgets_of(self.search_budgets)),
            seed=self.seed,
            rounds=self.rounds,
            compensations=tuple(map(check_compensation, betas)),
        )


@dataclass(frozen=True, kw_only=True)
class SearchesOptions:
    """The options of `vispco compare searches`."""

    budget: Annotated[str, typer.Option(metavar="BUDGET", help=FRACTION)] = "0.5"
    budgets: Annotated[
        str,
        typer.Option(
            metavar="BUDGET,...", help="Further budgets, for hypervolumes and equal terms; none for one budget alone."
        ),
    ] = "0.2,0.3,0.7"
    beyond: Annotated[
        float, typer.Option(min=0.1, help="Searches that can be stopped get so many times the bill of vispco.")
    ] = 1.0
    methods: Annotated[
        str | None,
        typer.Option("--searches", "--methods", help="all, or names with commas between them: {searches}."),
    ] = None
    scorer: Scorer = "fastv"
    measure: Annotated[str, typer.Option(help="What rivals measure on the calibration set: accuracy or kl.")] = "kl"
    cost: Cost = "exact"
    seed: Annotated[int, typer.Option(min=0, help="Of the searches that draw at random.")] = 0

    def check(self) -> None:
        """Refuse budgets that cannot be read."""
        one_budget(self.budget)
        self.further()

    def further(self) -> list[float]:
        """The budgets beside the one that the table is about."""
        return [] if self.budgets.strip() == "none" else budgets_of(self.budgets)

    def searches(self) -> list[Any]:
        """A wrong name is refused here, before a model is loaded."""
        from vispco.compare.searches import get_searches  # noqa: PLC0415 - torch
        from vispco.compare.searches.search_registry import DEFAULT  # noqa: PLC0415

        given = DEFAULT if self.methods is None else [name.strip() for name in self.methods.split(",") if name.strip()]
        return list(get_searches(given, seed=self.seed))
