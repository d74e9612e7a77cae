"""Budget: what may be spent, as a person writes it: 0.5, 50%, 0.4p, 40ms, 0.6t, 120MB, or mean:0.2,max:0.5."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from vispco.core.errors import InvalidInputError

Kind: TypeAlias = Literal["flops", "prefill", "time", "ms", "bytes"]
"""A fraction of the unpruned language model's FLOPs, or of the whole prefill's with the vision tower, a fraction of its prefill's time, milliseconds, or KV bytes."""
BudgetLike: TypeAlias = "float | str | Budget"

_HOW_TO_WRITE = (
    "Give a fraction of the unpruned FLOPs (0.5 or 50%), of the whole prefill's with its vision tower (0.4p), a fraction of the unpruned prefill's time (0.6t), milliseconds "
    "(40ms), KV bytes (120MB), or a mean with a cap (mean:0.2,max:0.5)."
)
_BYTES = {
    "b": 1,
    **{f"{p}b": 1000**n for n, p in enumerate("kmgt", 1)},
    **{f"{p}ib": 1024**n for n, p in enumerate("kmgt", 1)},
}
_UNITS: dict[str, tuple[Kind, float]] = {
    "": ("flops", 1.0),
    "%": ("flops", 0.01),
    "p": ("prefill", 1.0),
    "%p": ("prefill", 0.01),
    "t": ("time", 1.0),
    "%t": ("time", 0.01),
    "ms": ("ms", 1.0),
    "s": ("ms", 1000.0),
    **{name: ("bytes", float(size)) for name, size in _BYTES.items()},
}
_AMOUNT = re.compile(r"\s*([0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?)\s*([A-Za-z%]*)\s*")
_MEAN = re.compile(r"\s*mean:(?P<mean>[^,]+?)\s*(?:,\s*max:(?P<cap>[^,]+?)\s*)?")


@dataclass(frozen=True)
class Budget:
    """The largest cost that is allowed. It holds for every sample; with a `cap`, `amount` holds on average and `cap` for every sample.

    kind: of `amount` and `cap`. amount: a fraction in (0, 1] for 'flops', 'prefill' and 'time', else a number above 0.
    """

    kind: Kind
    amount: float
    cap: float | None = None

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise InvalidInputError(
                f"kind={self.kind!r} was given for a budget. It is one of {', '.join(get_args(Kind))}."
            )
        for number in (self.amount,) if self.cap is None else (self.amount, self.cap):
            if not math.isfinite(number) or number <= 0 or (self.is_relative and number > 1):
                allowed = "above 0, up to 1" if self.is_relative else "above 0"
                raise InvalidInputError(
                    f"The budget {self._written(number)} was given. It must be {allowed}. {_HOW_TO_WRITE}"
                )
        if self.cap is not None and self.cap < self.amount:
            raise InvalidInputError(
                f"The budget {self} was given. Its cap lies under its mean: raise the cap, or lower the mean."
            )

    @classmethod
    def of(cls, value: BudgetLike) -> Budget:
        """From a number (a fraction of the FLOPs), from what a person writes, or from a budget."""
        if isinstance(value, Budget):
            return value
        if isinstance(value, int | float) and not isinstance(value, bool):
            return cls("flops", float(value) if abs(value) < 1e300 else math.inf)
        if not isinstance(value, str):
            raise InvalidInputError(f"{value!r} was given for a budget. {_HOW_TO_WRITE}")
        mean = _MEAN.fullmatch(value)
        if mean is None:
            return cls(*_parse(value, value))
        kind, amount = _parse(mean["mean"], value)
        cap_kind, cap = (kind, 1.0) if mean["cap"] is None else _parse(mean["cap"], value)
        if cap_kind != kind or (mean["cap"] is None and kind not in ("flops", "prefill", "time")):
            raise InvalidInputError(f"The budget {value!r} needs a mean and a cap in the same unit. {_HOW_TO_WRITE}")
        return cls(kind, amount, cap)

    @property
    def is_relative(self) -> bool:
        """Whether it is a fraction of what the unpruned model takes."""
        return self.kind in ("flops", "prefill", "time")

    @property
    def is_time(self) -> bool:
        """Whether it is time, which a profile of the device turns into tokens."""
        return self.kind in ("time", "ms")

    @property
    def is_mean(self) -> bool:
        return self.cap is not None

    @property
    def fraction(self) -> float:
        """The plain fraction of the FLOPs; other budgets are refused, for places that know no other."""
        if self.kind != "flops" or self.is_mean:
            raise InvalidInputError(
                f"The budget {self} was given where a fraction of the FLOPs is meant. Give 0.5, or 50%."
            )
        return self.amount

    @property
    def plain(self) -> float | str:
        """As results keep it: the number of a plain fraction of the FLOPs, and any other as it is written."""
        return self.amount if self.kind == "flops" and not self.is_mean else str(self)

    def __str__(self) -> str:
        """As `of` reads it again."""
        if self.cap is None:
            return self._written(self.amount)
        return f"mean:{self._written(self.amount)},max:{self._written(self.cap)}"

    @property
    def label(self) -> str:
        """The name in a table."""
        shown = []
        for number in (self.amount,) if self.cap is None else (self.amount, self.cap):
            if self.kind == "bytes":
                unit = next((u for u in ("GB", "MB", "kB") if number >= _BYTES[u.lower()]), "B")
                shown.append(f"{number / _BYTES[unit.lower()]:.4g} {unit}")
            elif self.kind == "ms":
                shown.append(f"{number:.4g} ms")
            else:
                whole = {"time": " of the time", "prefill": " of the whole prefill"}.get(self.kind, "")
                shown.append(f"{100 * number:.4g}%{whole}")
        return shown[0] if self.cap is None else f"mean {shown[0]}, at most {shown[1]}"

    def _written(self, number: float) -> str:
        return f"{number:.12g}" + {"flops": "", "prefill": "p", "time": "t", "ms": "ms", "bytes": "B"}[self.kind]


def parse_budgets(text: str) -> list[Budget]:
    """Several budgets, as a person writes them: '0.3,0.5', '40ms,60ms', 'mean:0.2,max:0.5'."""
    joined = re.sub(r",\s*max:", "\0", text)  # the comma inside a mean budget
    parts = [part.replace("\0", ",max:") for part in joined.split(",") if part.strip()]
    if not parts:
        raise InvalidInputError(f"No budget was given in {text!r}. {_HOW_TO_WRITE} Several are separated by commas.")
    return [Budget.of(part) for part in parts]


def _parse(text: str, whole: str) -> tuple[Kind, float]:
    found = _AMOUNT.fullmatch(text)
    unit = None if found is None else _UNITS.get(found[2].lower())
    if found is None or unit is None:
        raise InvalidInputError(f"The budget {whole!r} cannot be read. {_HOW_TO_WRITE}")
    return unit[0], float(found[1]) * unit[1]
