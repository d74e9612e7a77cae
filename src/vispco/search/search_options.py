"""Options of a search: what is searched (`SearchOptions`), and its hyper-parameters (`PresetOptions`)."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar

import typer

from vispco.core.errors import InvalidInputError, UnknownNameError
from vispco.models.model_spec import ModelSpec
from vispco.pruner.pruning_options import (
    COMPENSATE,
    FRACTIONS,
    Allocation,
    ChainOfMethod,
    Convert,
    Cost,
    OneChain,
    budgets_of,
    budgets_option,
    not_yet,
)

if TYPE_CHECKING:
    from vispco.search.presets import SearchPreset
    from vispco.search.search_spec import Effort, SearchSpec

_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """What is searched, as options; `spec` is a `SearchSpec`."""

    scorer: OneChain = None
    scorers: Annotated[
        str | None, typer.Option(help="The chains of a joint search: fastv,divprune+fastv (default: all candidates).")
    ] = None
    servable: Annotated[
        bool, typer.Option("--servable", help="Only what prunes once, before layer 0, as serving engines can.")
    ] = False
    cacheable: Annotated[
        bool, typer.Option("--cacheable", help="Only choices that do not read the question, so that caches hold.")
    ] = False
    method: ChainOfMethod = None
    allocation: Allocation = None
    compensate: Annotated[
        float | None, typer.Option(help=f"{COMPENSATE} [searched by a joint search, else 0]", show_default=False)
    ] = None
    kernel: Annotated[str, typer.Option(help="The family of curves that is searched: {kernels}.")] = "steps"
    mode: Annotated[
        str | None,
        typer.Option(help="joint, predictor (a schedule for each input), static or line (default: by --scorer)."),
    ] = None
    solver: Annotated[
        str | None, typer.Option(help="lagrangian, projection, halving or table (default: what measured best).")
    ] = None
    budgets: Annotated[
        str,
        budgets_option(f"{FRACTIONS} Or 0.6t, 40ms, 120MB; see vispco profile. Or of the whole prefill: 0.5p,0.4p."),
    ] = "0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9"
    pixels: Annotated[
        str,
        typer.Option(help="Shares of a picture's pixels that are tried for budgets of the whole prefill: 0.5,0.75,1."),
    ] = "off"
    cost: Cost = "exact"
    seed: Annotated[int, typer.Option(min=0, help="Of everything that is drawn.")] = 0

    def check(self) -> None:
        """Refuse budgets that cannot be read."""
        if not self.whole:
            budgets_of(self.budgets, not_yet)

    @property
    def title(self) -> str:
        """What the folder of the run is called."""
        joint = "joint" if self.mode in (None, "joint") else "fastv"
        joint = "servable" if self.servable else "cacheable" if self.cacheable else joint
        return self.scorer or self.method or joint

    def spec(self, model: ModelSpec) -> SearchSpec:
        """The search; budgets of time and bytes are replaced once the model is there."""
        from vispco.pruner.presets import method_chain  # noqa: PLC0415
        from vispco.search.joint.space import read_chains  # noqa: PLC0415
        from vispco.search.search_spec import SearchSpec  # noqa: PLC0415

        return SearchSpec.choose(
            self.scorer if self.method is None else str(method_chain(self.method, model.num_layers(), self.scorer)),
            None if self.scorers is None else read_chains(self.scorers),
            servable=self.servable,
            cacheable=self.cacheable,
            allocation=self.allocation,
            compensate=self.compensate,
            kernel=self.kernel,
            mode=self.mode,  # type: ignore[arg-type]  # refused there if it is none
            solver=self.solver,
            budgets=self.whole or self.fractions(not_yet),
            pixels=self.shares,
            cost=self.cost,
            seed=self.seed,
        )

    @property
    def whole(self) -> tuple[str, ...]:
        """The budgets as they are written, if one of them is of the whole prefill; else none."""
        from vispco.cost.budget import parse_budgets  # noqa: PLC0415 - torch

        found = parse_budgets(self.budgets)
        return tuple(map(str, found)) if any(budget.kind == "prefill" for budget in found) else ()

    @property
    def shares(self) -> tuple[float, ...]:
        """The shares of pixels that are tried; 1 alone where it is off."""
        if self.pixels.strip() in ("off", ""):
            return (1.0,)
        try:
            found = [float(part) for part in self.pixels.split(",")]
        except ValueError as error:
            raise InvalidInputError(f"--pixels {self.pixels} was given. Give off, or shares: 0.5,0.75,1.") from error
        return tuple(sorted({1.0, *found}, reverse=True))

    def fractions(self, convert: Convert) -> tuple[float, ...]:
        """The budgets as fractions of the FLOPs, each once."""
        return tuple(dict.fromkeys(budgets_of(self.budgets, convert)))


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
        """For a transformers config, a kernel and a number of samples.

        A training goes over the samples as often as by default, and each of many processes (`accelerate launch`) gets a
        batch of every step, unless its settings say otherwise.
        """
        from vispco.search import presets  # noqa: PLC0415
        from vispco.search.gradient.training_settings import TrainingSettings  # noqa: PLC0415
        from vispco.search.search_spec import Effort  # noqa: PLC0415

        row = presets.get(self.preset) if self.preset else presets.for_model(config, kernel)
        effort, training = Effort(), {"batches": os.environ.get("WORLD_SIZE", "1")}
        for text in self.change or []:
            name, equals, value = (part.strip() for part in text.partition("="))
            if not equals or not value:
                raise InvalidInputError(f"--set {text!r} was given. Write NAME=VALUE, such as rate=0.0005.")
            part, dot, field = name.partition(".")
            if not dot:
                row = _changed(row, name, value)
                if name == "rate":  # as it is given, however short the training
                    training.setdefault("rate", value)
            elif part == "training":
                _changed(TrainingSettings(), field, value)  # refused now if it is wrong
                training[field] = value
            else:
                known = [each.name for each in fields(effort) if is_dataclass(getattr(effort, each.name))]
                if part not in known:
                    raise UnknownNameError("setting", name, [f"{each}.*" for each in (*known, "training")])
                effort = replace(effort, **{part: _changed(getattr(effort, part), field, value)})
        if row.batch_size < 1 or int(json.loads(training["batches"])) < 1:
            raise InvalidInputError("batch_size and training.batches must be 1 or more.")
        plan = TrainingSettings.of_passes(
            -(-samples // row.batch_size),
            row.rate,
            batches_per_step=int(json.loads(training["batches"])),
            steps=int(json.loads(training.get("steps", "0"))) or None,
        )
        for field, value in training.items():
            plan = _changed(plan, field, value)
        return row, replace(effort, batch_size=row.batch_size, training=plan)


def _changed(values: _T, name: str, text: str) -> _T:
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
