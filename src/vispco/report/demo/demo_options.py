"""`DemoOptions`: what a demo searches, sweeps and times, as a user types it."""

from dataclasses import dataclass
from typing import Annotated

import typer

from vispco.pruner.pruning_options import OneChain, budgets_of, budgets_option


@dataclass(frozen=True, kw_only=True)
class DemoOptions:
    """What is searched, swept and timed."""

    scorer: OneChain = None
    kernel: Annotated[str, typer.Option(help="The family of curves that is searched.")] = "steps"
    mode: Annotated[str | None, typer.Option(help="joint, predictor, static or line (default: by --scorer).")] = None
    budgets: Annotated[str, budgets_option()] = "0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9"
    test: Annotated[int, typer.Option(min=1, help="Test items of each task.")] = 16
    trials: Annotated[int, typer.Option(min=1, help="Configurations of the sweep beside the search.")] = 48
    timed: Annotated[str, typer.Option(help="Budgets whose time to first token is measured.")] = "0.3,0.4,0.5,0.8"
    rounds: Annotated[int, typer.Option(min=1, help="Timed rounds.")] = 5
    batch_size: Annotated[
        int | None, typer.Option(min=1, help="Prompts at once, when timing (default: chosen by a quick profile).")
    ] = None
    examples: Annotated[int, typer.Option(min=1, help="Pictures on the page.")] = 8
    seed: Annotated[int, typer.Option(min=0, help="Of everything that is drawn.")] = 0

    def check(self) -> None:
        """Refuse budgets that cannot be read."""
        budgets_of(self.budgets)
        budgets_of(self.timed)
