"""What is put on a model, as a person types it: a schedule in a few words or a file, or what a search found."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vispco.errors import InvalidInputError

if TYPE_CHECKING:
    from vispco.pruner import Pruner
    from vispco.schedule import Schedule

FORMS = "full, single:LAYER:KEEP, stages:LAYER=KEEP,LAYER=KEEP,..., withdraw:LAYER, or a JSON file of a schedule"

SCORER = "Which tokens stay: fastv, sparsevlm, fitprune, random."


@dataclass(frozen=True, kw_only=True)
class SubjectOptions:
    """How a model is pruned: a schedule with a scorer, or a search's directory with a budget."""

    schedule: Annotated[
        str, typer.Option(help="full, single:2:0.5, stages:2=0.5,6=0.2, withdraw:8, or a JSON file.")
    ] = "full"
    scorer: Annotated[str, typer.Option(help=SCORER)] = "fastv"
    pruner: Annotated[
        str | None,
        typer.Option(help="The directory of a search, or a saved predictor (in place of --schedule and --scorer)."),
    ] = None
    budget: Annotated[
        float | None, typer.Option(help="With --pruner: a fraction of the unpruned FLOPs, met by every sample.")
    ] = None

    def __post_init__(self) -> None:
        if self.pruner is not None and self.budget is None:
            raise InvalidInputError(f"--pruner {self.pruner} was given without --budget. Give one, such as 0.5.")
        if self.pruner is not None and self.schedule != "full":
            raise InvalidInputError("--pruner and --schedule were both given. Keep one of them.")
        if self.pruner is None and self.budget is not None:
            raise InvalidInputError("--budget goes with --pruner. For a schedule of your own, give --schedule alone.")

    @property
    def title(self) -> str:
        """What a table calls it."""
        return self.schedule if self.pruner is None else f"{self.pruner} at {self.budget:.0%}"

    def subject(self, num_layers: int) -> Schedule | Pruner | None:
        """What an evaluator takes; None for the full model."""
        if self.pruner is not None and self.budget is not None:
            from vispco.pruner import Pruner  # noqa: PLC0415 - torch

            check_found(self.pruner)
            return Pruner.from_pretrained(self.pruner, budget=self.budget)
        return None if self.schedule == "full" else schedule_from(self.schedule, num_layers)

    def to_dict(self, num_layers: int) -> dict[str, Any]:
        """What a result keeps of it."""
        if self.pruner is not None:
            return {"pruner": self.pruner, "budget": self.budget}
        return {"scorer": self.scorer, "schedule": schedule_from(self.schedule, num_layers).to_dict()}


def check_found(folder: str) -> None:
    """Say of a folder that no search has filled that it is none, and of a path that is not there that it is not."""
    place = Path(folder)
    if place.is_dir():
        kind = _model_type(place / "config.json")
        if kind not in (None, "vispco_predictor"):
            raise InvalidInputError(
                f"{folder} is a model ({kind}), not what a search found. Give the directory of a search "
                "(`vispco search MODEL --out DIR`), or a saved predictor."
            )
        if not any((place / name).exists() for name in ("config.json", "shapes.json")):
            raise InvalidInputError(
                f"{folder} holds no config.json, so it is neither the directory of a search nor a saved predictor. "
                f"Run `vispco search MODEL --out {folder}` first, or give another folder."
            )
    elif place.exists() or folder.startswith((".", "/", "~")) or folder.count("/") != 1:
        what = "is a file" if place.exists() else "does not exist"
        raise InvalidInputError(
            f"{folder} {what}. Give the directory of a search (`vispco search MODEL --out DIR`), or a saved predictor: "
            "a folder, or owner/name on the hub."
        )


def _model_type(config: Path) -> str | None:
    try:
        kind = json.loads(config.read_text(encoding="utf-8")).get("model_type")
    except (OSError, ValueError, AttributeError):
        return None  # told by who reads it
    return None if kind is None else str(kind)


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
