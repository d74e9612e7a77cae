"""Frozen dataclasses as JSON and back: fields that this version does not know are ignored, floats stay finite."""

from __future__ import annotations

import types
from dataclasses import fields
from functools import cache
from typing import Any, Self, Union, get_args, get_origin, get_type_hints

from vispco.core.errors import InvalidInputError, parsing


class JsonRecord:
    """A base for frozen dataclasses whose fields are numbers, texts, mappings, records, or tuples of those."""

    def to_dict(self) -> dict[str, Any]:
        return {field.name: _plain(getattr(self, field.name)) for field in fields(self)}  # type: ignore[arg-type]

    @classmethod
    @parsing("a part of a report")
    def from_dict(cls, data: Any) -> Self:
        if not isinstance(data, dict):
            raise InvalidInputError(f"A {cls.__name__} is a JSON object; {type(data).__name__} was given.")
        known = {name: _typed(hint, data[name]) for name, hint in _hints(cls).items() if name in data}  # type: ignore[arg-type]
        try:
            return cls(**known)
        except TypeError as error:
            raise InvalidInputError(f"A {cls.__name__} lacks what it needs: {error}.") from error


@cache
def _hints(cls: type) -> dict[str, Any]:
    hints = get_type_hints(cls)
    return {field.name: hints[field.name] for field in fields(cls)}


def _plain(value: Any) -> Any:
    if isinstance(value, JsonRecord):
        return value.to_dict()
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value


def _typed(hint: Any, value: Any) -> Any:
    """JSON has lists where records have tuples, and objects where they have records."""
    origin, inside = get_origin(hint), get_args(hint)
    if value is None:
        return None
    if origin in (Union, types.UnionType):
        options = [option for option in inside if option is not type(None)]
        return _typed(options[0], value) if len(options) == 1 else value
    if origin is tuple:
        return tuple(_typed(inside[0], item) for item in value)
    if origin is not None and isinstance(value, dict):
        return {key: _typed(inside[1], item) for key, item in value.items()}
    if isinstance(hint, type) and issubclass(hint, JsonRecord):
        return hint.from_dict(value)
    return value
