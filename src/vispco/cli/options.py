"""Options that several commands share: written once, as a dataclass, and spread over each command that takes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any, get_type_hints


def spread(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose parameters may be dataclasses of options; the command line sees their fields.

    Every field has a default, and is annotated as an option of a command is: `Annotated[str, typer.Option(...)]`.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, type] = {}
    flat: list[Parameter] = []
    for parameter in signature(command).parameters.values():
        kind = hints[parameter.name]
        if is_dataclass(kind) and isinstance(kind, type):
            groups[parameter.name] = kind
            flat += _options(kind)
        else:
            flat.append(parameter.replace(annotation=kind))

    @wraps(command)
    def run(*args: Any, **given: Any) -> None:
        for name, kind in groups.items():
            given[name] = kind(**{each.name: given.pop(each.name) for each in fields(kind)})
        command(*args, **given)

    run.__signature__ = Signature(flat)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in flat}
    return run


def _options(kind: type) -> list[Parameter]:
    hints = get_type_hints(kind, include_extras=True)
    return [
        Parameter(
            each.name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if each.default is MISSING else each.default,
            annotation=hints[each.name],
        )
        for each in fields(kind)
    ]
