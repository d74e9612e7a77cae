"""Options about pruning, for all commands: budgets as text, scorers, and how a model is pruned.

`PrunerOptions` and `PruningOptions` are what a user types for a `PrunerSpec`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeAlias

import typer

from vispco.core.errors import InvalidInputError

if TYPE_CHECKING:
    from vispco.cost import Budget
    from vispco.pruner.pruner_spec import PrunerSpec

Convert: TypeAlias = "Callable[[Budget], float]"
FRACTION = "A fraction of the unpruned FLOPs: 0.5 or 50%."
FRACTIONS = "Fractions of the unpruned FLOPs: 0.3,0.5 or 30%,50%."
_ALLOCATION = (
    "How a prompt's tokens are divided over its pictures or frames: score (the best stay wherever they are), equal, or "
    "size (in proportion)."
)
COMPENSATE = (
    "Attention that text gives back to the visual tokens that are left: their logits += COMPENSATE * log(shown / left), such as "
    "0.75; 0 is off."
)
_CONTROLLER = (
    "Of a mean budget: integral moves its multiplier so that the mean holds while the traffic changes, none leaves it fixed. "
    "[integral]"
)
PIXELS = (
    "The share of its pixels with which a picture enters, such as 0.75: fewer tokens for tower and language model. Budgets stay "
    "fractions of the whole picture's cost."
)
Scorer = Annotated[str, typer.Option(help="Which tokens stay, alone or as a chain (divprune+fastv): {scorers}.")]
OneChain = Annotated[
    str | None,
    typer.Option(help="One chain, whose schedules alone are searched (default: the joint search). Scorers: {scorers}."),
]
ChainOfMethod = Annotated[str | None, typer.Option(help="The scorers of a published method, in place of --scorer.")]
Allocation = Annotated[str | None, typer.Option(help=f"{_ALLOCATION} [score]", show_default=False)]
OwnAllocation = Annotated[str | None, typer.Option(help=f"{_ALLOCATION} [by the run or method]", show_default=False)]
Compensation = Annotated[float | None, typer.Option(help=f"{COMPENSATE} [0]", show_default=False)]
OwnCompensation = Annotated[float | None, typer.Option(help=f"{COMPENSATE} [by the run or method]", show_default=False)]
Pixels = Annotated[float | None, typer.Option(help=f"{PIXELS} [1, or by the run]", show_default=False)]
Cost = Annotated[str, typer.Option(help="What a budget is a fraction of: {costs}.")]


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


@dataclass(frozen=True, kw_only=True)
class PrunerOptions:
    """A saved pruner, a published method or a chain, at a budget."""

    budget: Annotated[
        str,
        budget_option(
            "Met by every prompt: a fraction of the unpruned language model's FLOPs (0.4, 40%), of the whole prefill's, vision "
            "tower inside (0.4p), of its time (0.6t), milliseconds (40ms; see vispco profile) or KV bytes (120MB)."
        ),
    ] = "0.5"
    pruner: Annotated[
        str | None, typer.Option(help="The folder of a search, or a saved predictor (in place of --method).")
    ] = None
    method: Annotated[
        str | None,
        typer.Option(
            help="A published method (visionzip:64), or a chain such as divprune+fastv@9 (default: what was searched for a "
            "shipped model, else divprune): {scorers}."
        ),
    ] = None
    allocation: OwnAllocation = None
    compensate: OwnCompensation = None
    pixels: Pixels = None
    controller: Annotated[str | None, typer.Option(help=_CONTROLLER, show_default=False)] = None

    def spec(self, model: str, say: Callable[[str], None] = lambda _: None) -> PrunerSpec:
        """How the model of this name is pruned. What is wrong with it is refused now, before a model is loaded.

        say: told in one line what prunes a model that was not searched, where nothing was named.
        """
        from vispco.pruner.pruner_spec import QUESTION_FREE, SEARCHED, PrunerSpec  # noqa: PLC0415 - torch

        given = asdict(self)
        if (self.pruner or self.method or self.controller) is not None:
            return PrunerSpec.choose(**given)
        if not (SEARCHED / model).is_dir():
            say(
                f"No search was given for {model}, so {QUESTION_FREE} prunes it in one step. `vispco search {model}` finds a better "
                "way, for --pruner."
            )
        return PrunerSpec.usual(
            model, **{name: given[name] for name in ("budget", "allocation", "compensate", "pixels")}
        )


@dataclass(frozen=True, kw_only=True)
class PruningOptions:
    """How a model is pruned: a schedule with a scorer, a published method, or a search's directory with a budget."""

    PANEL: ClassVar[str] = "Pruning"

    schedule: Annotated[
        str, typer.Option(help="full, single:2:0.5, stages:2=0.5,6=0.2, withdraw:8, or a JSON file.")
    ] = "full"
    scorer: Annotated[
        str | None, typer.Option(help="Which tokens stay, alone or as a chain (divprune+fastv): {scorers}. [fastv]")
    ] = None
    pruner: Annotated[
        str | None,
        typer.Option(
            help="A saved pruner, the directory of a search, or a saved predictor (in place of --schedule and --scorer)."
        ),
    ] = None
    method: Annotated[
        str | None,
        typer.Option(
            help="A published method as its paper sets it, such as pyramiddrop or sparsevlm:64 (see vispco info --methods), or a "
            "scorer or chain (divprune+fastv)."
        ),
    ] = None
    budget: Annotated[
        str | None,
        budget_option(
            "With --pruner or --method: a fraction of the unpruned FLOPs (0.5, 50%), time of a call (40ms, 0.6t; see "
            "vispco profile) or KV bytes (120MB)."
        ),
    ] = None
    allocation: Allocation = None
    compensate: Compensation = None
    pixels: Pixels = None

    def spec(self) -> PrunerSpec:
        """How the model is pruned. What is wrong with it is refused now, before a model is loaded."""
        from vispco.pruner.pruner_spec import PrunerSpec  # noqa: PLC0415 - torch

        return PrunerSpec.choose(**asdict(self))
