"""`PrunerConfig`: everything that a pruner is, as data. One JSON file; a predictor lies in a folder beside it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from vispco import files, provenance
from vispco.cost import Budget
from vispco.errors import InvalidInputError, VispcoError, check_version, parsing
from vispco.planning.model_fingerprint import ModelFingerprint
from vispco.schedule import Schedule
from vispco.scorers import Chain, ChainLike, check_allocation, check_compensation
from vispco.version import __version__

FORMAT, VERSION = "vispco-pruner", 1
NAME = "pruner.json"
REMEDY = "Give what Pruner.save_pretrained or `vispco export` wrote."


@dataclass(frozen=True)
class PrunerConfig:
    """What `Pruner.save_pretrained` writes and `Pruner.from_pretrained` reads.

    chain: the scorers, with options. A planner may have other chains at other budgets.
    planner: how many tokens each layer gets: {"kind": ..., and what that kind needs} (see `vispco.planning.planner_kinds`).
        "schedule" is one schedule, "shapes" a shape for each budget that was searched, "predictor" a network.
    budget: the budget that it is used at unless another one is given, as a user writes it (0.5, "50%", "40ms"); None for none.
    cost: what budgets are measured in, as `Cost.to_dict` gives it; None where no budget is solved for.
    allocation: how tokens are divided over a prompt's pictures, in place of what its chains say; None leaves it to them.
    compensate: how much attention is given back (`Chain.compensate`), in place of what its chains say; None leaves it to them.
    model, fingerprint: the model that it was made for, where known.
    versions: of vispco and of the packages that its results depend on.
    """

    chain: Chain
    planner: Mapping[str, Any]
    budget: float | str | None = None
    cost: Mapping[str, Any] | None = None
    model: str = ""
    fingerprint: Mapping[str, Any] | None = None
    versions: Mapping[str, str] = field(default_factory=provenance.versions)
    allocation: str | None = None
    compensate: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.planner, Mapping) or not isinstance(self.planner.get("kind"), str):
            raise InvalidInputError(
                f'{self.planner!r:.80} was given as the planner of a pruner. It is {{"kind": "schedule", ...}} or another kind.'
            )
        if self.budget is not None:
            Budget.of(self.budget)  # a wrong one is refused here
        if self.allocation is not None:
            check_allocation(self.allocation)
        if self.compensate is not None:
            check_compensation(self.compensate)
        if self.cost is not None and not isinstance(self.cost, Mapping):
            raise InvalidInputError(
                f'{self.cost!r:.80} was given as the cost of a pruner. It is {{"name": "exact", ...}}.'
            )
        if self.fingerprint is not None:
            ModelFingerprint.from_dict(self.fingerprint)  # a wrong one is refused here
        for name in ("planner", "cost", "fingerprint"):  # as JSON gives it back, so that configs can be compared
            object.__setattr__(self, name, json.loads(json.dumps(getattr(self, name))))

    @classmethod
    def of_schedule(cls, scorer: ChainLike, schedule: Schedule, **rest: Any) -> Self:
        """The config of a pruner with one schedule. rest: the other fields."""
        return cls(Chain.of(scorer), {"kind": "schedule", "schedule": schedule.to_dict()}, **rest)

    @property
    def kind(self) -> str:
        """The kind of its planner."""
        return str(self.planner["kind"])

    @property
    def fixed(self) -> bool:
        """Whether it is one schedule, which no budget changes."""
        return self.kind == "schedule"

    @property
    def schedule(self) -> Schedule:
        """The schedule of a pruner that has one."""
        if not self.fixed:
            raise InvalidInputError(
                f"This pruner plans by {self.kind} and has no schedule of its own. `vispco export RUN --budget 0.5` makes one."
            )
        return Schedule.from_dict(self.planner.get("schedule", {}))

    @property
    def controller(self) -> str | Mapping[str, Any] | None:
        """What keeps the mean of a mean budget (`vispco.planning.mean_controller`): a name, or its state; None: the default."""
        return self.planner.get("controller")

    def with_controller(self, controller: str | Mapping[str, Any]) -> Self:
        """The same with another controller of mean budgets."""
        return replace(self, planner={**self.planner, "controller": controller})

    def to_dict(self) -> dict[str, Any]:
        """Plain data, with the version of the library that wrote it."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "vispco": __version__,
            "model": self.model,
            "fingerprint": None if self.fingerprint is None else dict(self.fingerprint),
            "chain": self.chain.to_dict(),
            "planner": dict(self.planner),
            "budget": self.budget,
            "allocation": self.allocation,
            "compensate": self.compensate,
            "cost": None if self.cost is None else dict(self.cost),
            "versions": dict(self.versions),
        }

    @classmethod
    @parsing("a pruner", "Give what Pruner.save_pretrained or `vispco export` wrote.")
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """From `to_dict`; keys that a newer version added are ignored."""
        if not is_pruner(data):
            raise InvalidInputError(f'This is not a pruner: it has no "format": "{FORMAT}". {REMEDY}')
        check_version(data, VERSION, "This pruner")
        missing = [key for key in ("chain", "planner") if key not in data]
        if missing:
            raise InvalidInputError(f"This pruner has no {' and no '.join(map(repr, missing))}. {REMEDY}")
        return cls(
            Chain.of(data["chain"]),
            data["planner"],
            budget=data.get("budget"),
            allocation=data.get("allocation"),
            compensate=data.get("compensate"),
            cost=data.get("cost"),
            model=str(data.get("model") or ""),
            fingerprint=data.get("fingerprint"),
            versions=dict(data.get("versions") or {}),
        )

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write one JSON file, whole or not at all. A predictor is not in it: see `deployment.save`."""
        return files.write_json(path, self.to_dict())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what `save` wrote; the message of an error names the file."""
        data = files.read_json_object(path, what="pruner", remedy=REMEDY)
        try:
            return cls.from_dict(data)
        except VispcoError as error:
            raise InvalidInputError(f"{path}: {error}") from error


def is_pruner(data: Any) -> bool:
    """Whether this is what `PrunerConfig.to_dict` gives."""
    return isinstance(data, Mapping) and data.get("format") == FORMAT
