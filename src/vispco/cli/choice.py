"""Schedules as a person types them: a file, or a few words."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from vispco.errors import InvalidInputError

if TYPE_CHECKING:
    from vispco.schedule import Schedule

FORMS = "full, single:LAYER:KEEP, stages:LAYER=KEEP,LAYER=KEEP,..., withdraw:LAYER, or a JSON file of a schedule"


def schedule_from(text: str, num_layers: int) -> Schedule:
    """A schedule for a model of so many layers."""
    from vispco.schedule import Schedule  # noqa: PLC0415 - torch

    kind, _, rest = text.partition(":")
    try:
        if text == "full":
            return Schedule.full(num_layers)
        if kind == "single":
            layer, keep = rest.split(":")
            return Schedule.single(int(layer), float(keep), num_layers)
        if kind == "withdraw":
            return Schedule.withdraw(int(rest), num_layers)
        if kind == "stages":
            pairs = [part.split("=") for part in rest.split(",")]
            return Schedule.stages({int(layer): float(keep) for layer, keep in pairs}, num_layers)
    except InvalidInputError:
        raise
    except ValueError as error:
        raise InvalidInputError(f"The schedule {text!r} cannot be read. Give {FORMS}.") from error
    if not Path(text).is_file():
        raise InvalidInputError(f"The schedule {text!r} is neither a file nor one of the known forms. Give {FORMS}.")
    found = Schedule.load(text)
    if found.num_layers != num_layers:
        raise InvalidInputError(
            f"The schedule in {text} is for {found.num_layers} layers, but the model has {num_layers}."
        )
    return found
