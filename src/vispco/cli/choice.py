"""What is put on a model, as a person types it: a schedule in a few words or a file, or what a search found."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from vispco import files
from vispco.cli.budgets import budget_option
from vispco.cli.completion import complete_scorers
from vispco.errors import InvalidInputError

if TYPE_CHECKING:
    from vispco.pruner import Pruner
    from vispco.schedule import Schedule

FORMS = "full, single:LAYER:KEEP, stages:LAYER=KEEP,LAYER=KEEP,..., withdraw:LAYER, or a JSON file of a schedule"

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
CONTROLLER = (
    "Of a mean budget: integral moves its price so that the mean holds while the traffic changes, none leaves it fixed."
)
COST = "What a budget is a fraction of: {costs}."


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

    def __post_init__(self) -> None:
        check_given(self.allocation, self.compensate)
        if self.pruner is not None and self.budget is None and not has_own_budget(self.pruner):
            raise InvalidInputError(f"--pruner {self.pruner} was given without --budget. Give one, such as 0.5.")
        if self.pruner is not None and self.schedule != "full":
            raise InvalidInputError("--pruner and --schedule were both given. Keep one of them.")
        if self.pruner is not None and self.scorer is not None:
            raise InvalidInputError(
                f"--scorer {self.scorer} was given beside --pruner {self.pruner}, which has its own. Leave --scorer out."
            )
        if self.method is not None and (self.pruner is not None or self.schedule != "full" or self.scorer is not None):
            raise InvalidInputError("--method was given with --pruner, --schedule or --scorer. Keep one of them.")
        if self.pruner is None and self.method is None and self.budget is not None:
            raise InvalidInputError(
                "--budget goes with --pruner or --method. For a schedule of your own, give --schedule alone."
            )
        if self.method is not None:
            from vispco.presets import parse  # noqa: PLC0415 - torch

            parse(self.method)  # an unknown one is refused before a model is loaded

    @property
    def chain(self) -> str:
        """The scorer of a schedule."""
        return chain_with(self.scorer or "fastv", self.allocation, self.compensate)

    @property
    def title(self) -> str:
        """What a table calls it."""
        name = self.pruner or self.method
        if name is None:
            return "unpruned" if self.schedule == "full" else f"{self.chain}, {self.schedule}"
        if self.budget is None:
            return name
        from vispco.cost.budget import Budget  # noqa: PLC0415 - torch

        return f"{name} at {Budget.of(self.budget).label}"

    def check(self) -> None:
        """Say what is wrong with the pruner before a model is loaded."""
        if self.pruner is not None:
            from vispco.planning import deployment  # noqa: PLC0415 - torch

            deployment.at_budget(deployment.read(self.pruner).config, self.budget)

    def candidate(self, model: Any, num_layers: int) -> Schedule | Pruner | None:
        """What an evaluator takes; None for the full model."""
        if self.method is not None:
            from vispco import presets  # noqa: PLC0415 - torch
            from vispco.cost.budget import Budget  # noqa: PLC0415 - torch

            return presets.pruner(
                self.method,
                model,
                budget=None if self.budget is None else Budget.of(self.budget).fraction,
                **self._options,
            )
        if self.pruner is not None:
            from vispco.pruner import Pruner  # noqa: PLC0415 - torch

            return Pruner.from_pretrained(self.pruner, budget=self.budget, **self._options)
        return None if self.schedule == "full" else schedule_from(self.schedule, num_layers)

    def to_dict(self, num_layers: int) -> dict[str, Any]:
        """What a result keeps of it."""
        given = {name: value for name, value in self._options.items() if value is not None}
        if self.pruner is not None:
            return {"pruner": self.pruner, "budget": self._plain_budget(), **given}
        if self.method is not None:
            chain = chain_with(method_chain(self.method, None, num_layers) or "", **self._options)
            return {"method": self.method, "scorer": chain, "budget": self._plain_budget(), **given}
        return {"scorer": self.chain, **given, "schedule": schedule_from(self.schedule, num_layers).to_dict()}

    @property
    def _options(self) -> dict[str, Any]:
        """Options of a `Pruner`."""
        return {"allocation": self.allocation, "compensate": self.compensate}

    def _plain_budget(self) -> float | str | None:
        from vispco.cost.budget import Budget  # noqa: PLC0415 - torch

        return None if self.budget is None else Budget.of(self.budget).plain


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
    from vispco.presets import parse  # noqa: PLC0415 - torch

    preset, setting = parse(method)
    if scorer not in (None, "fastv"):
        raise InvalidInputError("--method and --scorer were both given. Keep one of them.")
    return str(preset.chain_for(num_layers, setting))


def has_own_budget(pruner: str) -> bool:
    """Whether this is a saved pruner, which may have been saved with a budget."""
    return Path(pruner).is_file() or (Path(pruner) / "pruner.json").is_file()


def schedule_from(text: str, num_layers: int) -> Schedule:
    """A schedule for a model of so many layers."""
    from vispco.planning.pruner_config import is_pruner  # noqa: PLC0415 - torch
    from vispco.schedule import Schedule  # noqa: PLC0415

    kind, _, rest = text.partition(":")
    try:
        if text == "full":
            return Schedule.full(num_layers)
        if kind == "single":
            layer, keep = rest.split(":")
            return Schedule.single(int(layer), float(keep), num_layers)
        if kind == "withdraw":
            return Schedule.withdraw(int(rest), num_layers)
        if kind == "stages":
            pairs = [part.split("=") for part in rest.split(",")]
            return Schedule.stages({int(layer): float(keep) for layer, keep in pairs}, num_layers)
    except InvalidInputError:
        raise
    except ValueError as error:
        raise InvalidInputError(f"The schedule {text!r} cannot be read. Give {FORMS}.") from error
    if not Path(text).is_file():
        raise InvalidInputError(f"The schedule {text!r} is neither a file nor one of the known forms. Give {FORMS}.")
    if is_pruner(files.read_json(text, what="schedule", remedy=f"Give {FORMS}.")):
        raise InvalidInputError(f"{text} is a pruner, with a scorer of its own. Give it as --pruner {text}.")
    found = Schedule.load(text)
    if found.num_layers != num_layers:
        raise InvalidInputError(
            f"The schedule in {text} is for {found.num_layers} layers, but the model has {num_layers}."
        )
    return found
