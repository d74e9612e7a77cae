"""What a search leaves on disk: one config, its metrics, the shapes and the frontier that it found, the predictor."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from vispco.errors import InvalidInputError
from vispco.planning.found_shape import Found

FORMAT, VERSION = "vispco-search", 1
CONFIG, METRICS, SHAPES, FRONTIER, PREDICTOR = (
    "config.json",
    "metrics.jsonl",
    "shapes.json",
    "frontier.json",
    "predictor",
)


def write_json(path: Path, data: Any) -> None:
    """Whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    part.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    part.replace(path)


def write_config(folder: Path, config: Mapping[str, Any]) -> None:
    write_json(folder / CONFIG, {"format": FORMAT, "version": VERSION, **config})


def write_shapes(folder: Path, found: Iterable[Found]) -> None:
    write_json(folder / SHAPES, [each.to_dict() for each in found])


def write_metrics(folder: Path, records: Iterable[Mapping[str, Any]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(dict(record)) + "\n" for record in records)
    (folder / METRICS).write_text(lines, encoding="utf-8")


def read_config(folder: Path) -> dict[str, Any]:
    """The config of a run; an error says what is wrong with the folder."""
    data = _read(folder / CONFIG)
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise InvalidInputError(f"{folder} is not the directory of a search: its {CONFIG} was not written by one.")
    return data


def read_shapes(folder: Path) -> list[Found]:
    if not (folder / SHAPES).is_file():
        return []
    return [Found.from_dict(each) for each in _read(folder / SHAPES)]


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInputError(
            f"{path} cannot be read: {error.strerror}. Give the directory of a search (`vispco search ... --out DIR`)."
        ) from error
    except ValueError as error:
        raise InvalidInputError(f"{path} is damaged: {error}. Run the search again.") from error
