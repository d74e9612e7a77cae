"""`Comparison`: the results of several searches, as plain data in one JSON file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from vispco.core.errors import InvalidInputError, parsing
from vispco.core.runs import files
from vispco.core.schedule import Schedule
from vispco.evaluation.frontier import hypervolume
from vispco.evaluation.result import Evaluation
from vispco.search.bill import FlopsBill

_FORMAT, _VERSION = "vispco-comparison", 1
_DEFAULT_SETTINGS = {"seed": 0, "budgets": []}  # of comparisons from versions that had no such setting


@dataclass(frozen=True)
class Reached:
    """What a search had reached on the test set after `flops` and `seconds` were spent.

    points: (budget, fraction of the FLOPs, accuracy) of each budget, ascending. hypervolume: of these points.
    """

    flops: float
    seconds: float
    points: tuple[tuple[float, float, float], ...]

    @property
    def hypervolume(self) -> float:
        """The area that the points dominate, up to the unpruned cost and from no accuracy."""
        values = np.array([(fraction, accuracy) for _, fraction, accuracy in self.points], dtype=np.float64)
        return hypervolume(values.reshape(-1, 2), (1.0, 0.0))

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "hypervolume": self.hypervolume}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Reached:
        points = tuple((float(b), float(f), float(a)) for b, f, a in data["points"])
        return cls(data["flops"], data["seconds"], points)


@dataclass(frozen=True)
class Row:
    """One method: what it found, its evaluation on the test set, and what the search cost.

    schedule: the curve [L] that was chosen; None for a planner, which makes one for each sample.
    reached: in a comparison of several budgets, what it had reached at which cost; the last one is the end, and
        `spent`, `seconds` and `evaluations` are for all budgets together.
    """

    method: str
    evaluation: Evaluation
    spent: FlopsBill
    seconds: float
    evaluations: int
    schedule: Schedule | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)
    reached: tuple[Reached, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {
            "method": self.method,
            "evaluation": self.evaluation.to_dict(),
            "search": {"spent": self.spent.to_dict(), "seconds": self.seconds, "evaluations": self.evaluations},
            "schedule": None if self.schedule is None else self.schedule.to_dict(),
            "provenance": dict(self.provenance),
            **({"reached": [each.to_dict() for each in self.reached]} if self.reached else {}),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Row:
        search, schedule = data["search"], data.get("schedule")
        return cls(
            data["method"],
            Evaluation.from_dict(data["evaluation"]),
            FlopsBill.from_dict(search["spent"]),
            search["seconds"],
            search["evaluations"],
            None if schedule is None else Schedule.from_dict(schedule),
            data.get("provenance", {}),
            tuple(Reached.from_dict(each) for each in data.get("reached", ())),
        )


@dataclass(frozen=True)
class Comparison:
    """The paper's Table 2 for one model: rows in the order of the methods, the unpruned model first.

    budget: the fraction of the unpruned FLOPs that all methods were given, by the cost model `cost`.
    details: what the rows depend on (scorer, numbers of samples, ...). Under 'not_run' are the methods that cannot run on
        this model or meet this budget, with a sentence each.
    """

    budget: float
    cost: str
    rows: tuple[Row, ...]
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks, in the order of the first row."""
        return tuple(task.task for task in self.rows[0].evaluation.tasks) if self.rows else ()

    def to_dict(self) -> dict[str, Any]:
        return {
            "format": _FORMAT,
            "version": _VERSION,
            "budget": self.budget,
            "cost": self.cost,
            "rows": [row.to_dict() for row in self.rows],
            "details": dict(self.details),
        }

    @classmethod
    @parsing("a comparison")
    def from_dict(cls, data: Mapping[str, Any]) -> Comparison:
        """Read `to_dict`. Keys that a newer version added are ignored."""
        if not isinstance(data, Mapping) or data.get("format") != _FORMAT:
            raise InvalidInputError(f'This is not a comparison: it has no "format": "{_FORMAT}".')
        rows = tuple(Row.from_dict(row) for row in data["rows"])
        return cls(data["budget"], data["cost"], rows, data.get("details", {}))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one JSON file; it appears whole or not at all."""
        files.write_json(path, self.to_dict(), seal=True)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Comparison:
        return cls.from_dict(files.read_json(path, what="comparison", remedy="Write it by save()."))


def load_finished_rows(path: Path, budget: float, cost: str, settings: Mapping[str, Any]) -> tuple[Row, ...]:
    """Return the rows of an earlier run of the same comparison, none if there was none. Another comparison is refused.

    settings: what the rows depend on, as written to the comparison's details.
    """
    if not path.exists():
        return ()
    found = Comparison.load(path)
    existing = {
        "budget": found.budget,
        "cost": found.cost,
        **{key: found.details.get(key, _DEFAULT_SETTINGS.get(key)) for key in settings},
    }
    given = {"budget": budget, "cost": cost, **settings}
    if existing == given:
        return found.rows
    raise InvalidInputError(
        f"{path} is another comparison: it has {_differing(existing, given)}; this one has {_differing(given, existing)}. "
        "Choose another folder with --out, or the same settings to continue it."
    )


def _differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """List the settings of `one` that differ from `other`, inside of groups, too."""
    differing = []
    for key, value in one.items():
        another = other[key]
        if isinstance(value, Mapping) and isinstance(another, Mapping):
            differing += [f"{key} {name}={value[name]!r}" for name in value if value[name] != another.get(name)]
        elif value != another:
            differing.append(f"{key}={value!r}")
    return ", ".join(differing)
