"""What a comparison of searches found: plain data, one JSON file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vispco import files
from vispco.errors import InvalidInputError
from vispco.evaluation.result import Evaluation
from vispco.rivals.candidate import spent_from
from vispco.schedule import Schedule
from vispco.search.bill import Spent

FORMAT, VERSION = "vispco-comparison", 1


@dataclass(frozen=True)
class Row:
    """One method: what it found, what that is worth on the test set, and what the search cost.

    schedule: the curve [L] that it chose; None for a planner, which makes one for each sample.
    """

    method: str
    evaluation: Evaluation
    spent: Spent
    seconds: float
    evaluations: int
    schedule: Schedule | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return {
            "method": self.method,
            "evaluation": self.evaluation.to_dict(),
            "search": {"spent": self.spent.to_dict(), "seconds": self.seconds, "evaluations": self.evaluations},
            "schedule": None if self.schedule is None else self.schedule.to_dict(),
            "provenance": dict(self.provenance),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Row:
        search, schedule = data["search"], data.get("schedule")
        return cls(
            data["method"],
            Evaluation.from_dict(data["evaluation"]),
            spent_from(search["spent"]),
            search["seconds"],
            search["evaluations"],
            None if schedule is None else Schedule.from_dict(schedule),
            data.get("provenance", {}),
        )


@dataclass(frozen=True)
class Comparison:
    """The paper's Table 2 for one model: rows in the order of the methods, the unpruned model first.

    budget: the fraction that all methods were given. cost: the cost model that it is a fraction by.
    details: what the rows depend on (scorer, numbers of samples, ...).
    """

    budget: float
    cost: str
    rows: tuple[Row, ...]
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def tasks(self) -> tuple[str, ...]:
        """In the order of the first row."""
        return tuple(task.task for task in self.rows[0].evaluation.tasks) if self.rows else ()

    def to_dict(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "version": VERSION,
            "budget": self.budget,
            "cost": self.cost,
            "rows": [row.to_dict() for row in self.rows],
            "details": dict(self.details),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Comparison:
        """From `to_dict`; keys that a newer version added are ignored."""
        if not isinstance(data, Mapping) or data.get("format") != FORMAT:
            raise InvalidInputError(f'This is not a comparison: it has no "format": "{FORMAT}".')
        rows = tuple(Row.from_dict(row) for row in data["rows"])
        return cls(data["budget"], data["cost"], rows, data.get("details", {}))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one JSON file; it appears whole or not at all."""
        files.write_json(path, self.to_dict())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Comparison:
        try:
            return cls.from_dict(files.read_json(path, what="comparison", remedy="Write it by save()."))
        except (ValueError, KeyError, TypeError) as error:
            if isinstance(error, InvalidInputError):
                raise
            raise InvalidInputError(f"The comparison {path} cannot be read: {error!r}. Write it by save().") from error


def rows_done(path: Path, budget: float, cost: str, ground: Mapping[str, Any]) -> tuple[Row, ...]:
    """The rows of an earlier run of the same comparison, none if there was none; another's is refused, both are named.

    ground: what the rows depend on, as it stands in the comparison's details.
    """
    if not path.exists():
        return ()
    found = Comparison.load(path)
    theirs = {"budget": found.budget, "cost": found.cost, **{key: found.details.get(key) for key in ground}}
    ours = {"budget": budget, "cost": cost, **ground}
    if theirs == ours:
        return found.rows
    raise InvalidInputError(
        f"{path} is another comparison: it has {_told(theirs, ours)}; this one has {_told(ours, theirs)}. Choose another "
        "folder with --out, or the same settings to go on with it."
    )


def _told(side: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """What one side has where the two differ; inside a group of settings, only those that differ."""
    told = []
    for key in side:
        mine, theirs = side[key], other[key]
        if isinstance(mine, Mapping) and isinstance(theirs, Mapping):
            told += [f"{key} {name}={mine[name]!r}" for name in mine if mine[name] != theirs.get(name)]
        elif mine != theirs:
            told.append(f"{key}={mine!r}")
    return ", ".join(told)
