"""How a model is pruned, as options of commands: a schedule with a scorer, a published method, or a saved pruner."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from vispco.cli.budgets import budget_option, one_budget
from vispco.cli.completion import complete_scorers
from vispco.core.errors import InvalidInputError

if TYPE_CHECKING:
    from vispco.pruner.pruner_spec import PrunerSpec

SCORER = "Which tokens stay, alone or as a chain (divprune+fastv): {scorers}."
METHOD = "A published method as its paper sets it, such as pyramiddrop or sparsevlm:64; see vispco info --methods."
ONE_CHAIN = "One chain, whose schedules alone are searched (default: the joint search). Scorers: {scorers}."
ALLOCATION = (
    "How a prompt's tokens are divided over its pictures or frames: score (the best stay wherever they are), equal, or "
    "size (in proportion)."
)
COMPENSATE = (
    "Attention that text gives back to the visual tokens that are left: their logits += COMPENSATE * log(shown / left), such as "
    "0.75; 0 is off."
)
COST = "What a budget is a fraction of: {costs}."


@dataclass(frozen=True, kw_only=True)
class PrunerOptions:
    """A saved pruner, a published method or a chain, at a budget."""

    budget: Annotated[
        str, budget_option("A fraction of the unpruned language model's FLOPs, met by every prompt: 0.4 or 40%.")
    ] = "0.5"
    pruner: Annotated[
        str | None, typer.Option(help="The folder of a search, or a saved predictor (in place of --method).")
    ] = None
    method: Annotated[
        str | None,
        typer.Option(
            help="A published method (visionzip:64), or a chain such as divprune+fastv@9 (default: fastv): {scorers}."
        ),
    ] = None
    allocation: Annotated[str | None, typer.Option(help=f"{ALLOCATION} [by the run or method]", show_default=False)] = (
        None
    )
    compensate: Annotated[
        float | None, typer.Option(help=f"{COMPENSATE} [by the run or method]", show_default=False)
    ] = None

    def spec(self) -> PrunerSpec:
        """How the model is pruned. What is wrong with it is refused now, before a model is loaded."""
        from vispco.pruner.pruner_spec import PrunerSpec  # noqa: PLC0415 - torch

        return PrunerSpec.choose(**asdict(self) | {"budget": one_budget(self.budget)})


@dataclass(frozen=True, kw_only=True)
class PruningOptions:
    """How a model is pruned: a schedule with a scorer, a published method, or a search's directory with a budget."""

    PANEL: ClassVar[str] = "Pruning"

    schedule: Annotated[
        str, typer.Option(help="full, single:2:0.5, stages:2=0.5,6=0.2, withdraw:8, or a JSON file.")
    ] = "full"
    scorer: Annotated[
        str | None, typer.Option(help=f"{SCORER} [fastv]", show_default=False, autocompletion=complete_scorers)
    ] = None
    pruner: Annotated[
        str | None,
        typer.Option(
            help="A saved pruner, the directory of a search, or a saved predictor (in place of --schedule and --scorer)."
        ),
    ] = None
    method: Annotated[str | None, typer.Option(help=METHOD)] = None
    budget: Annotated[
        str | None,
        budget_option(
            "With --pruner or --method: a fraction of the unpruned FLOPs (0.5, 50%); with --pruner also time (40ms, "
            "0.6t; see vispco profile) or KV bytes (120MB)."
        ),
    ] = None
    allocation: Annotated[str | None, typer.Option(help=f"{ALLOCATION} [score]", show_default=False)] = None
    compensate: Annotated[float | None, typer.Option(help=f"{COMPENSATE} [0]", show_default=False)] = None

    def spec(self) -> PrunerSpec:
        """How the model is pruned. What is wrong with it is refused now, before a model is loaded."""
        from vispco.pruner.pruner_spec import PrunerSpec  # noqa: PLC0415 - torch

        return PrunerSpec.choose(**asdict(self))


def chain_of(text: str) -> dict[str, Any]:
    """A scorer or a chain as a person types it, as an `EvaluatorSpec` keeps it; an unknown name is refused."""
    from vispco.scorers import Chain  # noqa: PLC0415 - torch

    return Chain.of(text).to_dict()


def check_given(allocation: str | None, compensate: float | None) -> None:
    """A wrong --allocation or --compensate is refused before a model is loaded."""
    if allocation is not None:
        from vispco.scorers import check_allocation  # noqa: PLC0415 - torch

        check_allocation(allocation)
    if compensate is not None:
        from vispco.scorers import check_compensation  # noqa: PLC0415 - torch

        check_compensation(compensate)


def chain_with(scorer: str, allocation: str | None, compensate: float | None) -> str:
    """A scorer or a chain as a person types it, with --allocation and --compensate."""
    if allocation is None and compensate is None:
        return scorer
    from vispco.scorers import Chain, with_options  # noqa: PLC0415 - torch

    return str(with_options(Chain.of(scorer), allocation, compensate))


def method_chain(method: str | None, scorer: str | None, num_layers: int) -> str | None:
    """The chain that --scorer names, or that of a published method for a model of so many layers."""
    if method is None:
        return scorer
    from vispco.pruner.presets import parse  # noqa: PLC0415 - torch

    preset, setting = parse(method)
    if scorer not in (None, "fastv"):
        raise InvalidInputError("--method and --scorer were both given. Keep one of them.")
    return str(preset.chain_for(num_layers, setting))
