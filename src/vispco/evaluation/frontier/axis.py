"""What "cost" means on a frontier: which cost model, in which unit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vispco.core.errors import InvalidInputError

if TYPE_CHECKING:
    from vispco.evaluation.result import Evaluation

UNITS = ("fraction", "flops", "seconds")


@dataclass(frozen=True)
class Axis:
    """The cost axis: `exact` (fraction of the unpruned model), `paper:flops`, or `seconds` (measured)."""

    model: str = "exact"
    unit: str = "fraction"

    def __post_init__(self) -> None:
        if self.unit not in UNITS:
            raise InvalidInputError(f"A cost axis is measured in one of {', '.join(UNITS)}; {self.unit!r} was given.")

    @classmethod
    def parse(cls, text: str | Axis) -> Axis:
        """`exact`, `paper`, `exact:flops`, `paper:fraction` or `seconds`."""
        if isinstance(text, Axis):
            return text
        if text == "seconds":
            return cls("measured", "seconds")
        model, _, unit = text.partition(":")
        return cls(model, unit or "fraction")

    def __str__(self) -> str:
        return "seconds" if self.unit == "seconds" else f"{self.model}:{self.unit}"

    def of(self, evaluation: Evaluation) -> float:
        """The cost of an evaluation on this axis."""
        if self.unit == "seconds":
            return evaluation.seconds
        known = evaluation.fraction if self.unit == "fraction" else evaluation.flops
        if self.model not in known:
            raise InvalidInputError(
                f"This evaluation holds no {self.unit} of the cost model {self.model!r}; it holds {sorted(known)}."
            )
        return known[self.model]
