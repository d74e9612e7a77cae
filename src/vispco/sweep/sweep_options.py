"""Options of a sweep, as a user types them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from vispco.pruner.pruning_options import (
    Allocation,
    ChainOfMethod,
    Compensation,
    Scorer,
    budget_option,
    not_yet,
    window_of,
)

if TYPE_CHECKING:
    from vispco.scorers import Chain


@dataclass(frozen=True, kw_only=True)
class SweepOptions:
    """Which configurations are evaluated, where results are stored, and by how many processes."""

    strategy: Annotated[str, typer.Option(help="grid, random, tpe or nsga2.")] = "grid"
    space: Annotated[str, typer.Option(help="single, stages, kernel:NAME or free.")] = "single"
    trials: Annotated[int | None, typer.Option(help="How many configurations [a grid: all of them]")] = None
    scorer: Scorer = "fastv"
    method: ChainOfMethod = None
    allocation: Allocation = None
    compensate: Compensation = None
    budget: Annotated[
        str | None,
        budget_option(
            "Only configurations that cost at most HIGH, or LOW,HIGH, of the unpruned FLOPs: 50%, or 0.3,0.5; or 0.6t, 40ms."
        ),
    ] = None
    seed: Annotated[int, typer.Option(min=0)] = 0
    storage: Annotated[str | None, typer.Option(help="An Optuna storage URL, for many machines.")] = None
    workers: Annotated[int, typer.Option(min=0, help="Processes; 0 runs in this one.")] = 1

    def check(self) -> None:
        """Refuse a budget that cannot be read."""
        window_of(self.budget, not_yet)

    def chain(self, num_layers: int) -> Chain:
        """The scorers."""
        from vispco.pruner.presets import method_chain  # noqa: PLC0415
        from vispco.scorers import Chain, with_options  # noqa: PLC0415

        own = None if self.method is None else method_chain(self.method, num_layers, self.scorer)
        chain = Chain.of(self.scorer) if own is None else own
        return with_options(chain, self.allocation, self.compensate)
