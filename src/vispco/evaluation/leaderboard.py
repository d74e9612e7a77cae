"""`LeaderboardEntry`: accuracies and costs of one run in a small file that can be added to `results/` and run again.

`vispco search` and `vispco compare methods` write one beside their other files. `benchmarks/leaderboard.py` checks those in
`results/`, runs them again, and writes the page of the documentation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vispco.core.errors import InvalidInputError, check_version, parsing
from vispco.core.runs import files

if TYPE_CHECKING:
    import os

    from vispco.core.runs.run_folder import RunFolder
    from vispco.evaluation.frontier import Frontier
    from vispco.evaluation.result import Evaluation

NAME = "leaderboard.json"
COMMANDS = ("search", "compare methods")
KINDS = ("unpruned", "published", "scaled", "compensated", "searched")
_FORMAT, _VERSION = "vispco-leaderboard", 1
_NOT_OPTIONS = ("model", "out", "overwrite", "json", "examples", "device", "batch_size", "budget", "loss")
"""Options that change nothing of what is compared; the last two are targets of `vispco recommend`."""


@dataclass(frozen=True, kw_only=True)
class LeaderboardRow:
    """One configuration. budget: None where a method sets its own cost. fraction: of the language model's FLOPs (`exact`),
    the mean over items. low, high: the 95 % interval of the accuracy. chain: scorers by depth, where it is one for all inputs.
    """

    method: str
    kind: str
    budget: float | None
    fraction: float
    accuracy: float
    low: float
    high: float
    chain: str = ""

    def __post_init__(self) -> None:
        shares = {name: getattr(self, name) for name in ("fraction", "accuracy", "low", "high")}
        shares |= {} if self.budget is None else {"budget": self.budget}
        for name, value in shares.items():
            if not isinstance(value, float | int) or not 0 <= value <= (2 if name == "fraction" else 1):
                raise InvalidInputError(f"The {name} of {self.method!r} is {value!r}. Give a share from 0 to 1.")
        if not self.low <= self.accuracy <= self.high:
            raise InvalidInputError(
                f"The accuracy {self.accuracy} of {self.method!r} lies outside of its interval, {self.low} to {self.high}."
            )
        if self.kind not in KINDS:
            raise InvalidInputError(f"The kind of {self.method!r} is {self.kind!r}. Give {', '.join(KINDS)}.")

    @property
    def key(self) -> tuple[str, str, float | None]:
        return self.method, self.kind, self.budget


@dataclass(frozen=True, kw_only=True)
class LeaderboardEntry:
    """What one command found. options: as `--config` reads them. weights: a digest of the model's. tasks: items of each."""

    command: str
    model: str
    weights: str | None
    tasks: Mapping[str, int]
    rows: tuple[LeaderboardRow, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.command not in COMMANDS:
            raise InvalidInputError(
                f"The command {self.command!r} writes no entry. Those that do: {', '.join(COMMANDS)}."
            )
        keys = [row.key for row in self.rows]
        if not any(row.kind == "unpruned" for row in self.rows) or len(keys) < 2 or len({*keys}) < len(keys):
            raise InvalidInputError("An entry has a row of the unpruned model, others, and none of them twice.")
        if not self.tasks or any(type(items) is not int or items < 1 for items in self.tasks.values()):
            raise InvalidInputError(f"The tasks are {dict(self.tasks)}. Give the number of items of each, 1 or more.")

    @classmethod
    def of_run(
        cls, command: str, model: str, rows: Iterable[Any], tasks: Mapping[str, int], facts: Any
    ) -> LeaderboardEntry:
        """rows: anything with the attributes of a `LeaderboardRow`; those without an interval are left out. facts: how it was run."""
        from vispco.evaluation.spec import weights_digest  # noqa: PLC0415

        def rounded(value: Any) -> Any:
            return round(value, 5) if isinstance(value, float) else value

        names = [each.name for each in fields(LeaderboardRow)]
        local = Path(model).is_dir()
        kept = [row for row in rows if row.kind in KINDS and row.accuracy is not None and row.low is not None]
        given = {
            name: re.sub(r"[^=,]*/", "", value) if isinstance(value, str) else value  # mine=/home/me/mine.jsonl
            for name, value in facts["options"].items()
            if name not in _NOT_OPTIONS and value is not False and value is not None and value != ""
        }
        return cls(
            command=command,
            model=Path(model).resolve().name if local else model,
            weights=weights_digest(model),
            tasks=dict(tasks),
            rows=tuple(LeaderboardRow(**{name: rounded(getattr(row, name)) for name in names}) for row in kept),
            options=given,
            versions=facts["versions"],
        )

    @classmethod
    def of_search(
        cls, model: str, title: str, frontier: Frontier, unpruned: Evaluation, facts: Any
    ) -> LeaderboardEntry:
        """The points of a frontier, and the unpruned model on the same items. title: of the search ("joint")."""
        points = sorted(frontier.points, key=lambda point: float(point.provenance["budget"]))
        found = [
            (f"search: {title}", "searched", float(point.provenance["budget"]), point.evaluation) for point in points
        ]
        rows = [
            LeaderboardRow(
                method=method,
                kind=kind,
                budget=budget,
                fraction=each.fraction["exact"],
                accuracy=each.accuracy,
                low=each.low,
                high=each.high,
            )
            for method, kind, budget, each in [("unpruned", "unpruned", None, unpruned), *found]
        ]
        return cls.of_run("search", model, rows, {task.task: task.n for task in unpruned.tasks}, facts)

    @property
    def unpruned(self) -> LeaderboardRow:
        return next(row for row in self.rows if row.kind == "unpruned")

    def write(self, folder: RunFolder) -> None:
        """Write the file into the folder of a run."""
        data = {"format": _FORMAT, "version": _VERSION, **asdict(self)}
        folder.write_json(NAME, data)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> LeaderboardEntry:
        data = files.read_json_object(path, what="leaderboard entry", remedy="Write it by vispco compare methods.")
        try:
            return cls.from_dict(data)
        except InvalidInputError as error:
            raise InvalidInputError(f"The leaderboard entry {path} cannot be read. {error}") from error

    @classmethod
    @parsing("a leaderboard entry")
    def from_dict(cls, data: Mapping[str, Any]) -> LeaderboardEntry:
        """Read a file's content. Keys that a newer version added are ignored."""
        if data.get("format") != _FORMAT:
            raise InvalidInputError(f'It has no "format": "{_FORMAT}".')
        check_version(data, _VERSION, "This entry")
        rows = (
            LeaderboardRow(**{each.name: row[each.name] for each in fields(LeaderboardRow)}) for row in data["rows"]
        )
        known = {each.name: data[each.name] for each in fields(cls)}
        return cls(**(known | {"rows": tuple(rows)}))
