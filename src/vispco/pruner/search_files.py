"""Files of a search: config, metrics, the shapes (`FoundShape`) and the frontier that it found, the predictor."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from vispco.core.errors import InvalidInputError, check_version, parsing
from vispco.core.runs import files

FORMAT, VERSION = "vispco-search", 1
CONFIG, METRICS, SHAPES, FRONTIER, PREDICTOR, UNPRUNED = (
    "config.json",
    "metrics.jsonl",
    "shapes.json",
    "frontier.json",
    "predictor",
    "unpruned.json",
)


@dataclass(frozen=True, eq=False)
class FoundShape:
    """One budget's shape. params: [P]. kl: its mean over the calibration set. history: what happened, for the record.

    chain, kernel: as data, where a search gives each budget its own; None for those of the search.
    """

    budget: float
    params: Tensor
    kl: float
    converged: bool = True
    history: list[dict[str, Any]] = field(default_factory=list)
    chain: Mapping[str, Any] | None = None
    kernel: Mapping[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        own = {"chain": self.chain, "kernel": self.kernel}
        return {
            "budget": self.budget,
            "params": self.params.tolist(),
            "kl": self.kl,
            "converged": self.converged,
            "history": self.history,
            **{name: dict(value) for name, value in own.items() if value is not None},
        }

    @classmethod
    @parsing("a shape that a search found")
    def from_dict(cls, data: dict[str, Any]) -> Self:
        params = torch.tensor(data["params"], dtype=torch.float64)
        rest = (data.get("converged", True), data.get("history", []), data.get("chain"), data.get("kernel"))
        return cls(data["budget"], params, data["kl"], *rest)


def write_config(folder: Path, config: Mapping[str, Any]) -> None:
    files.write_json(folder / CONFIG, {"format": FORMAT, "version": VERSION, **config})


def write_shapes(folder: Path, found: Iterable[FoundShape]) -> None:
    files.write_json(folder / SHAPES, [each.to_dict() for each in found])


def write_metrics(folder: Path, records: Iterable[Mapping[str, Any]]) -> None:
    files.write_text(folder / METRICS, "".join(json.dumps(dict(record)) + "\n" for record in records))


def write_unpruned(folder: Path, result: Any) -> None:
    """The evaluation of the unpruned model on the same questions: what every accuracy is compared with."""
    files.write_json(folder / UNPRUNED, result.to_dict())


def read_config(folder: Path) -> dict[str, Any]:
    """The config of a run; an error says what is wrong with the folder."""
    data = _read(folder / CONFIG)
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise InvalidInputError(f"{folder} is not the directory of a search: its {CONFIG} was not written by one.")
    check_version(data, VERSION, f"The search {folder / CONFIG}")
    return data


def read_shapes(folder: Path) -> list[FoundShape]:
    if not files.is_file(folder / SHAPES):
        return []
    data = _read(folder / SHAPES)
    if not isinstance(data, list):
        raise InvalidInputError(f"{folder / SHAPES} holds no list of shapes. Run the search again.")
    return [FoundShape.from_dict(each) for each in data]


def _read(path: Path) -> Any:
    remedy = "Give the directory of a search (`vispco search ... --out DIR`), or run the search again."
    return files.read_json(path, remedy=remedy)
