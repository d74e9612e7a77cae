"""`MethodTable`: what was measured of published methods, as plain data in one JSON file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from vispco.core.errors import InvalidInputError, UnknownNameError, parsing
from vispco.core.runs import files
from vispco.evaluation.paired import PairedDifference, paired_difference

FILE = "methods.json"
_FORMAT, _VERSION = "vispco-methods", 1
Kind: TypeAlias = Literal["unpruned", "published", "scaled", "sampled", "compensated", "searched"]
"""The model itself; a method as published; scaled to a budget; with schedules drawn at random; scaled, with attention
given back; with a schedule that was searched."""


@dataclass(frozen=True)
class TableSettings:
    """What a table is of.

    methods: names of `vispco.presets`, with a setting if not the default one ('sparsevlm:64'). budgets: fractions of each
    sample's unpruned FLOPs. draws: random schedules of each method and budget. search: a search of
    `vispco.compare.searches`, or None.
    search_budgets: the budgets at which it is run. compensations: what is tried at those budgets (`Chain.compensate`);
    none where empty. evaluated_search: the one for methods that merge tokens or decide by
    themselves how many stay, where `search` goes by gradient, which cannot pass them. seed: of the draws. rounds: of
    timing; 0 for none.
    """

    methods: tuple[str, ...]
    budgets: tuple[float, ...] = (0.9, 0.5, 0.3, 0.2)
    draws: int = 3
    search: str | None = "vispco-halving"
    search_budgets: tuple[float, ...] = (0.5, 0.3)
    evaluated_search: str = "vispco-halving"
    seed: int = 0
    rounds: int = 3
    compensations: tuple[float, ...] = (0.5, 0.75, 1.0)

    def to_dict(self) -> dict[str, Any]:
        """Without the methods: a table may be continued with others."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items() if k != "methods"}


@dataclass(frozen=True, kw_only=True)
class MethodTableRow:
    """One method in one way. Means over the test items, or for 'sampled' over the draws, too.

    accuracy: the mean over tasks, with its 95 % interval, or for 'sampled' the standard deviation over draws. tasks: by
    task (accuracy, low, high). scores: by task, of every item, for paired differences; none for 'sampled'. loyalty:
    share of answers that are those of the unpruned model. hard_accuracy: on the items that the unpruned model gets
    wrong on a downsampled picture; None where there are none. second_turn: on another question about the same picture,
    with the tokens that were chosen while the first was asked (`SecondTurns`); None for 'sampled'. fraction, flops,
    kv_bytes: of the language model's prefill; prefill: the fraction of the whole prefill's FLOPs, None where its vision
    tower is not described;
    mean_inputs: visual tokens of a mean layer. milliseconds, speedup: time to the first token, measured, and how much
    faster than the unpruned model in the same rounds; for 'sampled' of the first draw. note: why a number is missing, a
    budget is not met, or which search it was.
    """

    method: str
    kind: Kind
    budget: float | None = None
    chain: str = ""
    accuracy: float | None = None
    low: float | None = None
    high: float | None = None
    deviation: float | None = None
    tasks: Mapping[str, tuple[float, float, float]] = field(default_factory=dict)
    scores: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    loyalty: float | None = None
    hard_accuracy: float | None = None
    second_turn: float | None = None
    fraction: float | None = None
    prefill: float | None = None
    flops: float | None = None
    kv_bytes: float | None = None
    mean_inputs: float | None = None
    milliseconds: float | None = None
    speedup: float | None = None
    note: str = ""

    @property
    def key(self) -> tuple[str, str, float | None]:
        return self.method, self.kind, self.budget

    @property
    def label(self) -> str:
        """The name in a table: fastv, 'fastv @50%', 'fastv + search @50%'."""
        suffix = {"sampled": " random", "compensated": " + compensation", "searched": " + search"}.get(self.kind, "")
        return self.method + suffix + ("" if self.budget is None else f" @{100 * self.budget:g}%")

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> MethodTableRow:
        known = {key: value for key, value in data.items() if key in cls.__dataclass_fields__}
        for name in ("tasks", "scores"):
            known[name] = {task: tuple(values) for task, values in (known.get(name) or {}).items()}
        return cls(**known)


@dataclass(frozen=True)
class MethodTable:
    """Rows in the order of the methods, the unpruned model first. details: what they depend on."""

    rows: tuple[MethodTableRow, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def tasks(self) -> tuple[str, ...]:
        return next((tuple(row.tasks) for row in self.rows if row.tasks), ())

    def row(self, method: str, kind: Kind, budget: float | None = None) -> MethodTableRow | None:
        return next((row for row in self.rows if row.key == (method, kind, budget)), None)

    def is_done(self, method: str, settings: TableSettings) -> bool:
        """Whether nothing of a method is left to measure."""
        first = self.row(method, "published")
        if first is None or first.accuracy is None:
            return first is not None
        kinds: dict[Kind, object] = {"compensated": settings.compensations, "searched": settings.search}
        asked = [kind for kind, given in kinds.items() if given]
        return all(self.row(method, kind, budget) is not None for kind in asked for budget in settings.search_budgets)

    def paired(self, against: str = "unpruned") -> dict[str, PairedDifference]:
        """By label: each row held against a chosen one, also given by its label, on the same items."""
        base = next((row for row in self.rows if row.label == against), None)
        if base is None and against != "unpruned":
            raise UnknownNameError("row", against, [row.label for row in self.rows])
        if base is None or not base.scores:
            return {}
        others = [row for row in self.rows if row.scores and row.label != against]
        return {row.label: paired_difference(row.scores, base.scores) for row in others}

    @property
    def seconds(self) -> float:
        """What it took to measure, all runs of it together."""
        return float(self.details.get("seconds", 0.0))

    def to_dict(self) -> dict[str, Any]:
        rows = [asdict(row) for row in self.rows]
        return {"format": _FORMAT, "version": _VERSION, "details": dict(self.details), "rows": rows}

    @classmethod
    @parsing("a table of methods")
    def from_dict(cls, data: Mapping[str, Any]) -> MethodTable:
        """Read `to_dict`. Keys that a newer version added are ignored."""
        if not isinstance(data, Mapping) or data.get("format") != _FORMAT:
            raise InvalidInputError(f'This is not a table of methods: it has no "format": "{_FORMAT}".')
        return cls(tuple(MethodTableRow.from_dict(row) for row in data["rows"]), data.get("details", {}))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one JSON file; it appears whole or not at all."""
        files.write_json(path, self.to_dict(), seal=True)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> MethodTable:
        data = files.read_json(path, what="table of methods", remedy="Write it by save().")
        try:
            return cls.from_dict(data)
        except InvalidInputError as error:
            raise InvalidInputError(f"The table of methods {path} cannot be read. {error}") from error


def continued(path: Path, settings: Mapping[str, Any]) -> MethodTable:
    """The table of an earlier run with the same settings, an empty one if there was none. Another table is refused."""
    if not path.exists():
        return MethodTable(details=dict(settings))
    found = MethodTable.load(path)
    other = [key for key in settings if found.details.get(key) != settings[key]]
    if other:
        raise InvalidInputError(
            f"{path} is another table: {', '.join(other)} differ from this one's. Choose another folder with --out, or the "
            "same settings to continue it."
        )
    return found
