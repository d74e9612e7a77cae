"""`SearchOptions`: what is searched, as a user types it; a `SearchSpec` once the model is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from vispco.models.model_spec import ModelSpec
from vispco.pruner.pruning_options import (
    COMPENSATE,
    FRACTIONS,
    Allocation,
    ChainOfMethod,
    Convert,
    Cost,
    OneChain,
    budgets_of,
    budgets_option,
    not_yet,
)

if TYPE_CHECKING:
    from vispco.search.search_spec import SearchSpec


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """What is searched, as options; `spec` is a `SearchSpec`."""

    scorer: OneChain = None
    scorers: Annotated[
        str | None, typer.Option(help="The chains of a joint search: fastv,divprune+fastv (default: all candidates).")
    ] = None
    servable: Annotated[
        bool, typer.Option("--servable", help="Only what prunes once, before layer 0, as serving engines can.")
    ] = False
    cacheable: Annotated[
        bool, typer.Option("--cacheable", help="Only choices that do not read the question, so that caches hold.")
    ] = False
    method: ChainOfMethod = None
    allocation: Allocation = None
    compensate: Annotated[
        float | None, typer.Option(help=f"{COMPENSATE} [searched by a joint search, else 0]", show_default=False)
    ] = None
    kernel: Annotated[str, typer.Option(help="The family of curves that is searched: {kernels}.")] = "steps"
    mode: Annotated[
        str | None,
        typer.Option(help="joint, predictor (a schedule for each input), static or line (default: by --scorer)."),
    ] = None
    solver: Annotated[
        str | None, typer.Option(help="lagrangian, projection, halving or table (default: what measured best).")
    ] = None
    budgets: Annotated[
        str,
        budgets_option(f"{FRACTIONS} Or 0.6t, 40ms, 120MB; see vispco profile. Or of the whole prefill: 0.5p,0.4p."),
    ] = "0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9"
    pixels: Annotated[
        str,
        typer.Option(help="Shares of a picture's pixels that are tried for budgets of the whole prefill: 0.5,0.75,1."),
    ] = "off"
    cost: Cost = "exact"
    seed: Annotated[int, typer.Option(min=0, help="Of everything that is drawn.")] = 0

    def check(self) -> None:
        """Refuse budgets that cannot be read."""
        if not self.whole:
            budgets_of(self.budgets, not_yet)

    @property
    def title(self) -> str:
        """What the folder of the run is called."""
        joint = "joint" if self.mode in (None, "joint") else "fastv"
        joint = "servable" if self.servable else "cacheable" if self.cacheable else joint
        return self.scorer or self.method or joint

    def spec(self, model: ModelSpec) -> SearchSpec:
        """The search; budgets of time and bytes are replaced once the model is there."""
        from vispco.pruner.presets import method_chain  # noqa: PLC0415
        from vispco.search.joint.space import read_chains  # noqa: PLC0415
        from vispco.search.search_spec import SearchSpec  # noqa: PLC0415

        return SearchSpec.choose(
            self.scorer if self.method is None else str(method_chain(self.method, model.num_layers(), self.scorer)),
            None if self.scorers is None else read_chains(self.scorers),
            servable=self.servable,
            cacheable=self.cacheable,
            allocation=self.allocation,
            compensate=self.compensate,
            kernel=self.kernel,
            mode=self.mode,  # type: ignore[arg-type]  # refused there if it is none
            solver=self.solver,
            budgets=self.whole or self.fractions(not_yet),
            pixels=self.shares,
            cost=self.cost,
            seed=self.seed,
        )

    @property
    def whole(self) -> tuple[str, ...]:
        """The budgets as they are written, if one of them is of the whole prefill; else none."""
        from vispco.cost.budget import parse_budgets  # noqa: PLC0415 - torch

        found = parse_budgets(self.budgets)
        return tuple(map(str, found)) if any(budget.kind == "prefill" for budget in found) else ()

    @property
    def shares(self) -> tuple[float, ...]:
        """The shares of pixels that are tried; 1 alone where it is off."""
        from vispco.core.errors import InvalidInputError  # noqa: PLC0415

        if self.pixels.strip() in ("off", ""):
            return (1.0,)
        try:
            found = [float(part) for part in self.pixels.split(",")]
        except ValueError as error:
            raise InvalidInputError(f"--pixels {self.pixels} was given. Give off, or shares: 0.5,0.75,1.") from error
        return tuple(sorted({1.0, *found}, reverse=True))

    def fractions(self, convert: Convert) -> tuple[float, ...]:
        """The budgets as fractions of the FLOPs, each once."""
        return tuple(dict.fromkeys(budgets_of(self.budgets, convert)))
