"""`PrunerSpec`: how a model is pruned, as data. Every command takes one; it is saved, read, and resolved to a `Pruner`."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from vispco.core.errors import InvalidInputError, check_version, parsing
from vispco.core.pixels import check_pixels
from vispco.core.runs import files, provenance
from vispco.core.schedule import Schedule
from vispco.cost import Budget, BudgetLike
from vispco.pruner.model_fingerprint import ModelFingerprint
from vispco.scorers import Chain, ChainLike, check_allocation, check_compensation
from vispco.version import __version__

if TYPE_CHECKING:
    from vispco.pruner.pruner import Pruner

FORMAT, VERSION = "vispco-pruner", 1
NAME = "pruner.json"
SCORER, BUDGET = "fastv", 0.5  # where a user names neither
SEARCHED = Path(__file__).parent / "searched"  # what was found for the shipped models, by their names; see docs/zoo.md
QUESTION_FREE = "divprune"  # for models that were not searched: without attention, it is safe on any of them
_PLAIN = ("planner", "budget", "allocation", "compensate", "pixels", "cost")  # fields that are saved as they are
REMEDY = "Give what Pruner.save_pretrained or `vispco export` wrote."


@dataclass(frozen=True)
class PrunerSpec:
    """The pruning of a model as data: which tokens stay, and how many of them at each layer.

    chain: the scorers, with options; None: those of the published method. A planner may have other chains at other budgets.
    planner: how many tokens each layer gets: {"kind": ..., and what that kind needs}, see `vispco.pruner.planner_kinds`.
        "schedule" is one schedule, "shapes" a shape for each budget that was searched, "predictor" and "joint" a network,
        "whole" one under a setting of pictures, "parts" several of those by their budgets, "published" a published method, "steps" one step for each scorer.
    budget: as a user writes it (0.5, "50%", "40ms"); None: none was chosen yet, or, of a schedule or method, none is met.
    cost: the unit of budgets, as `Cost.to_dict` gives it; None: that of the model.
    allocation: how tokens are divided over a prompt's pictures, in place of what the chains say.
    compensate: how much attention is given back (`Chain.compensate`), in place of what the chains say.
    pixels: the share of its pixels with which a picture enters (`Pruner.prepare`).
    model, fingerprint: the model that it was made for, where known. versions: of the packages that wrote it.
    source, folder: what it was read from, as the user named it, and the folder of its files. Not saved.
    """

    chain: Chain | None
    planner: Mapping[str, Any]
    budget: float | str | None = None
    cost: Mapping[str, Any] | None = None
    model: str = ""
    fingerprint: Mapping[str, Any] | None = None
    allocation: str | None = None
    compensate: float | None = None
    pixels: float = 1.0
    versions: Mapping[str, str] = field(default_factory=dict, compare=False)
    source: str = field(default="", compare=False)
    folder: Path = field(default=Path(), compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.planner, Mapping) or not isinstance(self.planner.get("kind"), str):
            raise InvalidInputError(
                f'{self.planner!r:.80} was given as the planner of a pruner. It is {{"kind": "schedule", ...}} or another kind.'
            )
        budget = None if self.budget is None else Budget.of(self.budget)  # a wrong one is refused here
        if self.allocation is not None:
            check_allocation(self.allocation)
        if self.compensate is not None:
            check_compensation(self.compensate)
        if check_pixels(self.pixels) != 1.0 and budget is not None and budget.kind == "time":
            raise InvalidInputError(
                f"The budget {self.budget} was given with pixels={self.pixels:g}, and the time of the whole picture is not known then. "
                "Give milliseconds (40ms), a fraction of FLOPs (0.4, 0.4p), or pixels=1."
            )
        if self.cost is not None and not isinstance(self.cost, Mapping):
            raise InvalidInputError(
                f'{self.cost!r:.80} was given as the cost of a pruner. It is {{"name": "exact", ...}}.'
            )
        if self.fingerprint is not None:
            ModelFingerprint.from_dict(self.fingerprint)  # a wrong one is refused here
        for name in ("planner", "cost", "fingerprint"):  # as JSON gives it back, so that specs can be compared
            object.__setattr__(self, name, json.loads(json.dumps(getattr(self, name))))

    @staticmethod
    def choose(
        *,
        pruner: str | None = None,
        method: str | None = None,
        scorer: ChainLike | None = None,
        schedule: Schedule | str | None = None,
        budget: BudgetLike | None = None,
        controller: str | None = None,
        **options: Any,
    ) -> PrunerSpec:
        """A spec from what a user names: a saved pruner, a published method, or a scorer with a schedule or a budget.

        pruner: as `load` takes it. method: a published one ('sparsevlm:64'), as published or at the budget, or a chain.
        scorer: a chain, with a schedule (`single:2:0.5`, a file, ...; 'full' prunes nothing), or with one step for each
        scorer that meets the budget. Without any: fastv. What contradicts itself, or is unknown, is refused.
        options: allocation, compensate and pixels; None for those of the pruner, or none.
        """
        if pruner is not None and method is not None:
            raise InvalidInputError(
                f"A saved pruner ({pruner}) and a method ({method}) were both given. Keep one of them: the pruner knows "
                "its method."
            )
        if (pruner or method) is not None and (scorer is not None or schedule not in (None, "full")):
            raise InvalidInputError(
                f"{pruner or method} has a scorer and a schedule of its own, and another was given. Keep one of them: "
                "--pruner, --method, or --schedule with --scorer."
            )
        if controller is not None and pruner is None:
            raise InvalidInputError(
                f"--controller {controller} was given without --pruner. It keeps the mean of a mean budget, which what a search "
                "found can meet. Leave it out, or give --pruner."
            )
        wanted = None if budget is None else Budget.of(budget)
        if wanted is not None and wanted.is_mean and pruner is None:
            raise InvalidInputError(
                f"The budget {budget} was given without --pruner. What a joint search found can meet a mean; a method or a scorer "
                "meets a budget for every prompt: 0.5, 40ms, 0.6t or 120MB."
            )
        plain = None if wanted is None else wanted.plain
        options = {name: value for name, value in options.items() if value is not None}
        if pruner is not None:
            if plain is None and not (Path(pruner).is_file() or (Path(pruner) / NAME).is_file()):
                raise InvalidInputError(f"The pruner {pruner} was given without --budget. Give one, such as 0.5.")
            found = replace(PrunerSpec.load(pruner).at(plain), **options)
            return found if controller is None else found.with_controller(controller)
        if method is not None:
            from vispco.pruner.presets import PRESETS, parse  # noqa: PLC0415 - only where a method is named

            parse(method)  # an unknown method, setting or scorer is refused here
            if plain is None or method.partition(":")[0].strip() in PRESETS:
                return PrunerSpec(None, {"kind": "published", "method": method}, plain, **options)
            scorer, schedule = method, None
        chain = Chain.of(scorer or SCORER)
        if schedule is None:
            return PrunerSpec(chain, {"kind": "steps"}, BUDGET if plain is None else plain, **options)
        if plain is not None:
            raise InvalidInputError(
                "--budget goes with --pruner or --method. For a schedule of your own, give --schedule alone."
            )
        return PrunerSpec.of_schedule(chain, schedule, **options)

    @staticmethod
    def usual(model: str, budget: BudgetLike = BUDGET, **options: Any) -> PrunerSpec:
        """What prunes a model where a user names nothing: what was searched for a shipped model, else one step of divprune.

        options: allocation, compensate and pixels, as `choose` takes them.
        """
        if not (SEARCHED / model / NAME).is_file():
            return PrunerSpec.choose(scorer=QUESTION_FREE, budget=budget, **options)
        found = PrunerSpec.choose(pruner=str(SEARCHED / model), budget=budget, **options)
        return replace(found, source=f"searched for {model}")

    @classmethod
    def of_schedule(cls, scorer: ChainLike, schedule: Schedule | str, **rest: Any) -> Self:
        """The spec of one schedule, also as text (`planner_kinds.read_schedule`). rest: the other fields."""
        plain = schedule if isinstance(schedule, str) else schedule.to_dict()
        return cls(Chain.of(scorer), {"kind": "schedule", "schedule": plain}, **rest)

    @staticmethod
    def load(source: str | Path) -> PrunerSpec:
        """A saved pruner, the folder of a search, or a saved predictor: a file, a folder, or hub:owner/name.

        An error says what is there instead, and what to give.
        """
        from vispco.pruner.saved_pruners import read_source  # noqa: PLC0415 - predictors

        return read_source(source)

    @property
    def kind(self) -> str:
        """The kind of its planner."""
        return str(self.planner["kind"])

    @property
    def fixed(self) -> bool:
        """Whether it is one schedule, which no budget changes."""
        return self.kind == "schedule"

    @property
    def unpruned(self) -> bool:
        """Whether it is the schedule that keeps everything, by name."""
        return self.fixed and self.planner.get("schedule") == "full"

    @property
    def schedule(self) -> Schedule:
        """The schedule of a pruner that has one."""
        if not self.fixed:
            raise InvalidInputError(
                f"This pruner plans by {self.kind} and has no schedule of its own. `vispco export RUN --budget 0.5` makes one."
            )
        return Schedule.from_dict(self.planner.get("schedule", {}))

    @property
    def title(self) -> str:
        """The name in a table."""
        name = self.source or self.planner.get("method") or str(self.chain)
        if not self.source and self.fixed:
            text = self.planner.get("schedule")
            name = "unpruned" if self.unpruned else f"{name}, {text if isinstance(text, str) else 'a schedule'}"
        if self.pixels != 1.0:
            name = f"{name}, {self.pixels:.0%} of the pixels"
        return name if self.budget is None else f"{name} at {Budget.of(self.budget).label}"

    @property
    def usual_batch(self) -> int:
        """Prompts of a call, where a user gives none: one with a budget of time, which holds for a call."""
        return 1 if self.budget is not None and Budget.of(self.budget).is_time else 32

    def named(self) -> dict[str, Any]:
        """The user's choice, as a result keeps it."""
        steps = str(self.chain) if self.kind == "steps" else None
        return {
            "pruner": self.source or None,
            "method": None if self.source else self.planner.get("method", steps),
            "budget": None if self.budget is None else Budget.of(self.budget).plain,
            "allocation": self.allocation,
            "compensate": self.compensate,
            **({} if self.pixels == 1.0 else {"pixels": self.pixels}),
        }

    def at(self, budget: BudgetLike | None) -> Self:
        """The same for a budget: the given one, or its own. One schedule has only the budget that it was made for."""
        wanted = None if budget is None else Budget.of(budget)
        if self.kind == "parts" and wanted is not None:
            return self._part(wanted)
        if self.fixed:
            if wanted is not None and (self.budget is None or Budget.of(self.budget) != wanted):
                made = "" if self.budget is None else f", made for the budget {self.budget}"
                raise InvalidInputError(
                    f"The budget {budget} was given, but this pruner is one schedule{made}. Give no budget, or export "
                    "another schedule from its run."
                )
            return self
        if wanted is None and self.budget is None and self.kind != "published":
            raise InvalidInputError(
                "This pruner works at any budget, and none was given. Give budget=0.5 (--budget 0.5)."
            )
        return self if budget is None else replace(self, budget=str(budget) if isinstance(budget, Budget) else budget)

    def _part(self, budget: Budget) -> Self:
        """What a search for budgets of the whole prefill found for the nearest one, at this one."""
        if budget.kind != "prefill":
            raise InvalidInputError(
                f"The budget {budget} was given, and {self.source} was searched for budgets of the whole prefill. Give one of them: "
                f"{', '.join(str(part['budget']) for part in self.planner['parts'])}."
            )

        def distance(part: Mapping[str, Any]) -> tuple[bool, float]:
            own = Budget.of(part["budget"])
            return own.is_mean != budget.is_mean, abs(own.amount - budget.amount)

        nearest = min(self.planner["parts"], key=distance)
        found = type(self).load(self.folder / nearest["folder"]).at(budget)
        return replace(found, source=self.source)  # type: ignore[return-value]

    def with_controller(self, name: str) -> Self:
        """The same with a controller of mean budgets: 'none', or 'integral', with the state that it was saved with."""
        if name not in ("integral", "none"):
            raise InvalidInputError(
                f"controller={name!r} was given. It keeps the mean of a mean budget while the traffic changes: integral, none."
            )
        if name != "none" and self.planner.get("controller") != "none":
            return self
        return replace(self, planner={**self.planner, "controller": name})

    def resolve(self, model: Any = None, *, record: bool = False) -> Pruner:
        """A new pruner. model: the one that it is for; needed by a published method, by steps, and by a schedule as text."""
        from vispco.pruner.planner_kinds import PLANNERS  # noqa: PLC0415 - predictors
        from vispco.pruner.pruner import Pruner  # noqa: PLC0415 - it reads specs

        spec = self.at(None)
        if model is not None and spec.budget is not None and Budget.of(spec.budget).is_time:
            from vispco.pruner.measured_planner import check_profile  # noqa: PLC0415 - only for budgets of time

            check_profile(model)
        options: dict[str, Any] = {"allocation": self.allocation, "compensate": self.compensate, "pixels": self.pixels}
        pruner = Pruner(*PLANNERS.get(self.kind)(spec, model), record=record, **options)
        pruner._spec = spec  # noqa: SLF001 - what it was made of
        return pruner

    def static(self, budget: BudgetLike, *, num_text: int | None = None, num_visual: int | None = None) -> Self:
        """One static schedule for a budget: the best single shape for all samples, at one size of sample.

        num_text, num_visual: the size; default: the median of the calibration set. For samples of that size it meets the
        budget to the token; at other sizes the same retention costs another fraction (use `resolve` where that matters).
        """
        from vispco.pruner.planner_kinds import static_schedule  # noqa: PLC0415 - predictors

        fraction = Budget.of(budget).fraction
        typical = self.planner.get("typical") or (None, None)
        text, visual = (
            own if given is None else given for own, given in zip(typical, (num_text, num_visual), strict=True)
        )
        if text is None or visual is None:
            raise InvalidInputError(
                f"{self.source} does not say how large its samples were. Give num_text and num_visual, or the folder of a "
                "search."
            )
        chain, schedule = static_schedule(self, fraction, text, visual)
        plain = {"kind": "schedule", "schedule": schedule.to_dict()}
        return replace(self, chain=chain, planner=plain, budget=fraction)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, with the version of the library that wrote it."""
        own = {name: getattr(self, name) for name in ("model", "fingerprint", "chain", *_PLAIN)}
        own = {name: dict(value) if isinstance(value, Mapping) else value for name, value in own.items()}
        own["chain"] = None if self.chain is None else self.chain.to_dict()
        versions = dict(self.versions) or provenance.versions()
        return {"format": FORMAT, "version": VERSION, "vispco": __version__, **own, "versions": versions}

    @classmethod
    @parsing("a pruner", REMEDY)
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """From `to_dict`; keys that a newer version added are ignored."""
        if not is_pruner(data):
            raise InvalidInputError(f'This is not a pruner: it has no "format": "{FORMAT}". {REMEDY}')
        check_version(data, VERSION, "This pruner")
        if missing := [key for key in ("chain", "planner") if key not in data]:
            raise InvalidInputError(f"This pruner has no {' and no '.join(map(repr, missing))}. {REMEDY}")
        return cls(
            None if data["chain"] is None else Chain.of(data["chain"]),
            model=str(data.get("model") or ""),
            fingerprint=data.get("fingerprint"),
            versions=dict(data.get("versions") or {}),
            **{name: data[name] for name in _PLAIN if name in data},
        )

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write a folder, its predictor first, then the file that says that it is complete; a .json path: that file alone."""
        place = Path(path)
        if place.suffix == ".json":
            return files.write_json(place, self.to_dict())
        spec = self
        if self.kind in ("predictor", "joint", "whole"):
            from vispco.pruner.planner_kinds import save_predictor  # noqa: PLC0415 - predictors

            spec = replace(self, planner={**self.planner, **save_predictor(self, place)})
        return files.write_json(place / NAME, spec.to_dict())


def is_pruner(data: Any) -> bool:
    """Whether this is what `PrunerSpec.to_dict` gives."""
    return isinstance(data, Mapping) and data.get("format") == FORMAT
