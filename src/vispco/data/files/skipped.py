"""What a reader could not use: why, in which file, at which row. The run continues, and its result says how many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from vispco.core.errors import InvalidInputError

LISTED = 1000  # beyond this, skipped items are still counted but no longer listed: a report stays small


@dataclass(frozen=True, slots=True)
class Skipped:
    """One item that was left out. Rows count from 1; the header of a table is not a row."""

    reason: str  # a few words, the same for every item of its kind: "missing image"
    file: str
    row: int | None
    detail: str  # what exactly was wrong with this one
    id: str = ""

    @property
    def sentence(self) -> str:
        place = self.file if self.row is None else f"{self.file}, row {self.row}"
        return f"{place}: {self.detail}"


class SkippedItemError(InvalidInputError):
    """An item turned out to be unusable when it was opened; `skipped` is its line for the report."""

    def __init__(self, skipped: Skipped) -> None:
        super().__init__(skipped.sentence)
        self.skipped = skipped

    def __reduce__(self) -> tuple[type[SkippedItemError], tuple[Skipped]]:
        return type(self), (self.skipped,)


@dataclass(slots=True)
class SkipReport:
    """How many items were used and how many were not, by reason, with the first `LISTED` of them in full."""

    used: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    listed: list[Skipped] = field(default_factory=list)

    @property
    def count(self) -> int:
        return self.reasons.total()

    def add(self, skipped: Skipped) -> None:
        self.reasons[skipped.reason] += 1
        if len(self.listed) < LISTED:
            self.listed.append(skipped)

    def summary(self) -> str:
        """One line for a person: `3 of 120 items skipped: 2 missing image, 1 broken base64`."""
        if not self.count:
            return f"0 of {self.used} items skipped"
        parts = ", ".join(f"{number} {reason}" for reason, number in self.reasons.most_common())
        return f"{self.count} of {self.count + self.used} items skipped: {parts}"

    def to_dict(self) -> dict[str, Any]:
        return {
            "used": self.used,
            "skipped": self.count,
            "reasons": dict(self.reasons.most_common()),
            "listed": [asdict(entry) for entry in self.listed],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        return cls(data["used"], Counter(data["reasons"]), [Skipped(**entry) for entry in data["listed"]])
