"""`PresetOptions`: hyper-parameters of a search as options: the paper's row for the model, another row, or single values."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar

import typer

from vispco.core.errors import InvalidInputError, UnknownNameError

if TYPE_CHECKING:
    from vispco.search.presets import SearchPreset
    from vispco.search.spec import Effort

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class PresetOptions:
    """Which hyper-parameters, and how much work."""

    PANEL: ClassVar[str] = "Settings of a search"

    preset: Annotated[
        str | None,
        typer.Option(help="qwen, gemma, llava, qwen/linear, ..., text (default: the paper's row for the model)."),
    ] = None
    change: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Another value, as often as needed: lam, alpha, epsilon, beta, sigma, temperature, rate, batch_size, "
            "or of a part: descent.outer=4, joint.anchors=3, one_chain.shapes=16, training.steps=1000.",
        ),
    ] = None

    def resolve(self, config: Any, kernel: str, samples: int) -> tuple[SearchPreset, Effort]:
        """For a transformers config, a kernel and so many samples.

        A training goes over the samples as often as by default, and each of many processes (`accelerate launch`) gets a
        batch of every step, unless its settings say otherwise.
        """
        from vispco.search import presets  # noqa: PLC0415
        from vispco.search.gradient.training_settings import TrainingSettings  # noqa: PLC0415
        from vispco.search.modes import PASSES  # noqa: PLC0415
        from vispco.search.spec import Effort  # noqa: PLC0415

        row = presets.get(self.preset) if self.preset else presets.for_model(config, kernel)
        effort, training = Effort(), {"batches": os.environ.get("WORLD_SIZE", "1")}
        for text in self.change or []:
            name, equals, value = (part.strip() for part in text.partition("="))
            if not equals or not value:
                raise InvalidInputError(f"--set {text!r} was given. Write NAME=VALUE, such as rate=0.0005.")
            part, dot, field = name.partition(".")
            if not dot:
                row = changed(row, name, value)
            elif part == "training":
                changed(TrainingSettings(), field, value)  # refused now if it is wrong
                training[field] = value
            else:
                known = [each.name for each in fields(effort) if is_dataclass(getattr(effort, each.name))]
                if part not in known:
                    raise UnknownNameError("setting", name, [f"{each}.*" for each in (*known, "training")])
                effort = replace(effort, **{part: changed(getattr(effort, part), field, value)})
        if row.batch_size < 1 or int(json.loads(training["batches"])) < 1:
            raise InvalidInputError("batch_size and training.batches must be 1 or more.")
        batches = -(-samples // row.batch_size)
        plan = changed(TrainingSettings(rate=row.rate), "batches", training.pop("batches"))
        steps = max(1, PASSES * batches // plan.batches)
        plan = replace(plan, steps=steps, inner=max(2, batches // (4 * plan.batches)))
        for field, value in training.items():
            plan = changed(plan, field, value)
        return row, replace(effort, batch_size=row.batch_size, training=plan)


def changed(values: T, name: str, text: str) -> T:
    """The same dataclass with one field changed to what `text` says."""
    known = {each.name: getattr(values, each.name) for each in fields(values)}  # type: ignore[arg-type]
    optional = {each.name: str(each.type) for each in fields(values)}  # type: ignore[arg-type]
    if name not in known:
        raise UnknownNameError("setting", name, list(known))
    if isinstance(known[name], str):
        return replace(values, **{name: text})  # type: ignore[type-var]
    try:
        value = json.loads(text)
        if value is None and "None" in optional[name]:
            return replace(values, **{name: None})  # type: ignore[type-var]
        if isinstance(known[name], bool) != isinstance(value, bool) or isinstance(value, str | dict):
            raise ValueError  # noqa: TRY301 - reported below
        if isinstance(known[name], tuple):
            value = tuple(value)
        elif isinstance(known[name], float):
            value = float(value)
        elif isinstance(known[name], int) and value != int(value):
            raise ValueError  # noqa: TRY301
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"{name}={text!r} was given. It is now {known[name]!r}; give such a value.") from error
    return replace(values, **{name: value})  # type: ignore[type-var]
