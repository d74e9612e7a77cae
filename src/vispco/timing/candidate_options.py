"""`CandidateOptions`: pruners that are timed side by side, as a user types them; each a `PrunerSpec` with a name."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vispco.core.errors import InvalidInputError
from vispco.core.runs.files import read_json
from vispco.pruner.pruning_options import OwnAllocation, OwnCompensation, budgets_option

if TYPE_CHECKING:
    from vispco.pruner.pruner_spec import PrunerSpec

UNPRUNED = "unpruned"
_FASTV = "single:2:0.5"  # as its paper has it: after the second layer, half of the tokens


@dataclass(frozen=True, kw_only=True)
class CandidateOptions:
    """Saved pruners at each budget, schedules under the scorer, and published methods; without any, FastV."""

    pruner: Annotated[
        list[str] | None,
        typer.Option(help="The folder of a search, a saved pruner, or a schedule; may be given several times."),
    ] = None
    schedule: Annotated[
        list[str] | None, typer.Option(help="single:2:0.5, stages:2=0.5,6=0.2, withdraw:8, or a JSON file; the same.")
    ] = None
    scorer: Annotated[str, typer.Option(help="For schedules: {scorers}.")] = "fastv"
    method: Annotated[
        list[str] | None,
        typer.Option(
            help="A published method (pyramiddrop, sparsevlm:64), or one at a budget (pyramiddrop@0.5); the same."
        ),
    ] = None
    allocation: OwnAllocation = None
    compensate: OwnCompensation = None
    budgets: Annotated[str, budgets_option("For folders of searches: 0.25,50%, 40ms, 0.6t, 120MB.")] = "0.25,0.5,0.75"

    def check(self) -> None:
        """Refuse budgets that cannot be read."""
        from vispco.cost.budget import parse_budgets  # noqa: PLC0415 - torch

        parse_budgets(self.budgets)

    def candidates(self) -> dict[str, PrunerSpec]:
        """The pruners by the names that a table has for them; a method may have a budget (pyramiddrop@0.5)."""
        from vispco.cost.budget import parse_budgets  # noqa: PLC0415 - torch
        from vispco.pruner.planner_kinds import FORMS  # noqa: PLC0415
        from vispco.pruner.pruner_spec import PrunerSpec, is_pruner  # noqa: PLC0415

        named = [*(self.pruner or ()), *(self.schedule or ())]
        found: list[tuple[str, PrunerSpec]] = []
        for text in named or ([] if self.method else [_FASTV]):
            if Path(text).is_dir() or (Path(text).is_file() and is_pruner(read_json(text))):
                saved = PrunerSpec.load(text)
                if saved.fixed:
                    found.append((Path(text).name, saved))
                else:
                    found += [
                        (f"{Path(text).name} {budget.label}", saved.at(budget.plain))
                        for budget in parse_budgets(self.budgets)
                    ]
            elif ":" not in text and text != "full" and not Path(text).exists():
                raise InvalidInputError(
                    f"{text} is neither the folder of a search nor a schedule. For one, give {FORMS}."
                )
            else:
                found.append((f"{self.scorer} {text}", PrunerSpec.choose(scorer=self.scorer, schedule=text)))
        for text in self.method or ():
            name, at, budget = text.partition("@")
            found.append((text, PrunerSpec.choose(method=name, budget=budget if at else None)))
        names = [name for name, _ in found]
        if len({*names, UNPRUNED}) != len(names) + 1:
            raise InvalidInputError(
                f"The candidates {', '.join(names)} have a name twice (or `{UNPRUNED}`). Give each its own."
            )
        options: dict[str, Any] = {"allocation": self.allocation, "compensate": self.compensate}
        given = {name: value for name, value in options.items() if value is not None}
        return {name: replace(spec, **given) for name, spec in found}
