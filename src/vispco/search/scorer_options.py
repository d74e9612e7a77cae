"""`ScorerOptions`: the training of a learned method, as a user types it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vispco.core.errors import InvalidInputError

if TYPE_CHECKING:
    from vispco.search.learned import ScorerSettings


@dataclass(frozen=True, kw_only=True)
class ScorerOptions:
    """How it is trained, and the sizes of its network."""

    target: Annotated[
        float | None,
        typer.Option(
            help="What it aims at: dynamic-llava: share of tokens kept; atp-llava: the mean share that its modules keep; "
            "madtp: share of FLOPs (default: as published)."
        ),
    ] = None
    steps: Annotated[int, typer.Option(min=1, help="Optimizer steps.")] = 120
    rate: Annotated[float, typer.Option(help="Learning rate.")] = 1e-3
    batch_size: Annotated[int, typer.Option(min=1, help="Samples of a step.")] = 16
    options: Annotated[
        str, typer.Option(help="Of the method's network: width=64,blocks=2.", show_default=False, metavar="K=V,...")
    ] = ""
    seed: Annotated[int, typer.Option(min=0, help="Of everything that is drawn.")] = 0

    def settings(self) -> ScorerSettings:
        """The same for `train_scorer`."""
        from vispco.search.learned import ScorerSettings  # noqa: PLC0415 - torch

        return ScorerSettings(
            steps=self.steps, rate=self.rate, target=self.target, batch_size=self.batch_size, seed=self.seed
        )

    def network(self) -> dict[str, Any]:
        """'width=64,blocks=2' -> options of the network; numbers as numbers."""
        found: dict[str, Any] = {}
        for part in filter(None, (part.strip() for part in self.options.split(","))):
            name, equals, value = (piece.strip() for piece in part.partition("="))
            try:
                found[name] = float(value) if "." in value or "e" in value else int(value)
            except ValueError as error:
                raise InvalidInputError(f"--options has {part!r}. Write name=number, such as width=64.") from error
            if not equals:
                raise InvalidInputError(f"--options has {part!r}. Write name=number, such as width=64.")
        return found
