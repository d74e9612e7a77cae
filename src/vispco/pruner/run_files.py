"""Files of a search: config, metrics, the shapes and the frontier that it found, the predictor."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from vispco.core.errors import InvalidInputError, check_version
from vispco.core.runs import files
from vispco.pruner.found_shape import FoundShape

FORMAT, VERSION = "vispco-search", 1
CONFIG, METRICS, SHAPES, FRONTIER, PREDICTOR, UNPRUNED = (
    "config.json",
    "metrics.jsonl",
    "shapes.json",
    "frontier.json",
    "predictor",
    "unpruned.json",
)


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
