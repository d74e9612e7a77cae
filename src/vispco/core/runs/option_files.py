"""Options from a YAML or JSON file: all of it, the section of a command, or what a run's config.json says of itself."""

import json
import math
from pathlib import Path
from typing import Any

from vispco.core.errors import InvalidInputError
from vispco.core.runs import files

_MOST_VALUES = 10_000  # of a config file, with its aliases written out


def read_options(path: Path, command: str) -> dict[str, Any]:
    """The options of a file: all of it, its section for this command, or what a run's config.json says of itself."""
    data = _parsed(files.read_text(path, what="config", remedy="Give a file of YAML or JSON."), path)
    if not isinstance(data, dict):
        raise InvalidInputError(f"The config {path} holds no options. Give lines such as `scorer: fastv`.")
    own = data.get("options") if "command" in data else data.get(command)
    return own if isinstance(own, dict) else data


def option_text(key: str, value: Any, path: Path, *, several: bool) -> Any:
    """The value of an option as a person types it: a list with commas, scorers by layer as a chain.

    several: the option may come several times; then a list stays one.
    """
    if isinstance(value, dict):
        if not value or not all(str(layer).isdigit() for layer in value):
            raise InvalidInputError(f"The config {path} gives an object for {key}. Give one value, or a list.")
        return "+".join(f"{value[layer]}@{layer}" for layer in sorted(value, key=int))
    try:
        texts = [str(each) for each in (value if isinstance(value, list) else [value])]
    except ValueError as error:  # a number of thousands of digits
        raise InvalidInputError(f"The config {path} gives too large a number for {key}.") from error
    return texts if several else value if isinstance(value, bool) else ",".join(texts)


def _parsed(text: str, path: Path) -> Any:
    if path.suffix == ".json":
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InvalidInputError(f"The config {path} is not JSON: {error}.") from error
    import yaml  # noqa: PLC0415

    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)  # aliases share their nodes here
        size = 0.0 if root is None else _expanded_size(root, {})
        found = yaml.safe_load(text) if size <= _MOST_VALUES else None
    except (yaml.YAMLError, RecursionError, ValueError) as error:  # the last: a date or a number that cannot be
        raise InvalidInputError(f"The config {path} is not YAML: {' '.join(str(error).split())}.") from error
    if size > _MOST_VALUES:
        raise InvalidInputError(
            f"The config {path} stands for more than {_MOST_VALUES:,} values with its aliases written out. Give fewer."
        )
    return found


def _expanded_size(node: Any, known: dict[int, float]) -> float:
    """How many values a YAML node stands for with its aliases written out; infinite for one that holds itself."""
    if id(node) not in known:
        known[id(node)] = math.inf  # until it is counted: who meets it before is inside of it
        inner = node.value if isinstance(node.value, list) else ()
        flat = [part for each in inner for part in (each if isinstance(each, tuple) else (each,))]
        known[id(node)] = 1 + sum(_expanded_size(part, known) for part in flat)
    return known[id(node)]
