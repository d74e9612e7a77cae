"""`SearchSpec`: what is searched and how, as data. The command, `vispco.search`, comparisons and benchmarks all use it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass, replace
from typing import Any, Literal, Self

from vispco import cost as costs
from vispco import kernels
from vispco.core.errors import InvalidInputError, did_you_mean
from vispco.core.pixels import check_pixels
from vispco.cost import Budget, Cost
from vispco.kernels import Kernel
from vispco.scorers import Chain, ChainLike, with_options
from vispco.search import presets
from vispco.search.gradient.relaxation import GaussianMask
from vispco.search.gradient.static import DescentSettings
from vispco.search.gradient.training_settings import TrainingSettings
from vispco.search.joint.joint_settings import ONE_CHAIN, JointSettings
from vispco.search.joint.space import candidate_chains, check_chains, joint_kernel
from vispco.search.presets import SearchPreset

Mode = Literal["joint", "static", "predictor", "line"]
# The first is the default.
SOLVERS = {
    "joint": ("table",),
    "static": ("projection", "lagrangian", "halving"),
    "predictor": ("table", "projection", "lagrangian"),
    "line": ("line",),
}
_JOINT_BATCH = 32  # samples of a batch in a joint search
BUDGETS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


@dataclass(frozen=True)
class Effort:
    """How much a search may do, by part; the defaults suit a small model and some hundred samples."""

    batch_size: int = 16  # the paper's
    descent: DescentSettings = field(default_factory=DescentSettings)
    training: TrainingSettings | None = None  # None: the preset's rate, and a few passes over the samples
    predictor: dict[str, Any] = field(default_factory=dict)  # options of its config
    joint: JointSettings = field(default_factory=JointSettings)
    one_chain: JointSettings = field(default_factory=lambda: ONE_CHAIN)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Effort:
        """From its fields as JSON has them; keys that a newer version added are ignored."""
        training = data.get("training")
        known: Effort = _known(cls(), data)
        return replace(
            known,
            training=None if training is None else _known(TrainingSettings(), training),
            predictor=dict(data.get("predictor") or {}),
        )


@dataclass(frozen=True)
class SearchSpec:
    """One search: in which space, for which budgets, how, and with which seed. Names are checked when it is made.

    chain, kernel: the space. solver: None becomes the default of the mode. cost: a name or a `Cost`. preset: None stands
    for the paper's row of the model and kernel (see `for_model`). chains: the candidates of a joint search, which chooses
    among them (`chain` is then the first). servable: only configurations that prune once, before layer 0. cacheable: only
    chains whose choice does not depend on the question. whole: budgets of the whole prefill (0.4p, mean:0.4p,max:0.6p), in place
    of those of the language model; pixels: the shares of a picture's pixels that are tried for them.
    `SearchSpec.of` takes names, `SearchSpec.of_chains` makes a joint search.
    """

    chain: Chain
    kernel: Kernel
    mode: Mode = "predictor"
    solver: str | None = None
    budgets: tuple[float, ...] = BUDGETS
    cost: str | Cost = "exact"
    preset: SearchPreset | None = None
    effort: Effort = field(default_factory=Effort)
    seed: int = 0
    chains: tuple[Chain, ...] = ()
    servable: bool = False
    cacheable: bool = False
    whole: tuple[str, ...] = ()
    pixels: tuple[float, ...] = (1.0,)

    def __post_init__(self) -> None:
        object.__setattr__(self, "whole", tuple(self.whole) or _whole_budgets(self.budgets))
        object.__setattr__(self, "pixels", tuple(map(check_pixels, self.pixels)))
        if self.whole:
            object.__setattr__(self, "budgets", tuple(Budget.of(budget).amount for budget in self.whole))
        if (self.whole or self.pixels != (1.0,)) and (self.mode != "joint" or self.servable or not self.whole):
            raise InvalidInputError(
                "Budgets of the whole prefill (0.4p) and --pixels go together with a joint search, which may prune anywhere. Leave "
                "--mode, --scorer and --servable out, and give budgets such as 0.5p,0.4p."
            )
        if isinstance(self.cost, str):
            costs.COSTS.get(self.cost)  # an unknown name is refused here
        if not self.budgets:
            raise InvalidInputError("No budgets were given. Give at least one, such as 0.5.")
        object.__setattr__(self, "solver", _choose_solver(self.mode, self.solver))
        object.__setattr__(self, "budgets", tuple(Budget.of(budget).fraction for budget in self.budgets))

    @classmethod
    def of(
        cls,
        scorer: ChainLike = "fastv",
        kernel: str | Kernel = "steps",
        *,
        preset: str | SearchPreset | None = None,
        effort: Effort | None = None,
        **rest: Any,
    ) -> Self:
        """A search from names. A kernel that is named gets the earliest layer of the chain. rest: the other fields."""
        chain = Chain.of(scorer)
        return cls(
            chain,
            kernels.get(kernel, earliest_layer=chain.earliest_layer) if isinstance(kernel, str) else kernel,
            preset=presets.get(preset) if isinstance(preset, str) else preset,
            effort=effort or Effort(),
            **rest,
        )

    @classmethod
    def choose(
        cls,
        scorer: ChainLike | None = None,
        scorers: Sequence[ChainLike] | None = None,
        *,
        servable: bool = False,
        cacheable: bool = False,
        kernel: str | Kernel = "steps",
        mode: Mode | None = None,
        allocation: str | None = None,
        compensate: float | None = None,
        **rest: Any,
    ) -> Self:
        """The search that a user means: joint without a scorer or a mode, else of one chain.

        allocation: of tokens over a prompt's pictures, compensate: of attention to tokens that are left, in place of what the
        scorers say (a joint search that is not given it searches it). rest: the other fields.
        """
        # an unknown one is refused
        named = kernels.KERNELS.get(kernel).name if isinstance(kernel, str) else kernel.name
        if scorer is not None and scorers is not None:
            raise InvalidInputError("Both one scorer and a list of scorers were given. Keep one of them.")
        if scorer is None and scorers is not None and len(scorers) == 1 and not (servable or cacheable):
            scorer, scorers = scorers[0], None
        joint = mode == "joint" or (mode is None and (scorer is None or servable or cacheable))
        if allocation is not None or compensate is not None:
            if scorers is None and joint and scorer is None:
                scorers = candidate_chains(servable=servable, cacheable=cacheable)
            given = (allocation, compensate)
            scorer = None if scorer is None and joint else with_options(Chain.of(scorer or "fastv"), *given)
            scorers = None if scorers is None else [with_options(Chain.of(each), *given) for each in scorers]
        if joint:
            if named != "steps" or rest.pop("solver", None) not in (None, "table"):
                raise InvalidInputError(
                    "A joint search has curves and a solver of its own. To choose a kernel or a solver, give one scorer."
                )
            if compensate is not None:  # then it is not searched
                effort = rest.pop("effort", None) or Effort(batch_size=_JOINT_BATCH)
                rest["effort"] = replace(effort, joint=replace(effort.joint, compensations=()))
            preset = rest.pop("preset", None)
            rest["preset"] = presets.get(preset) if isinstance(preset, str) else preset
            return cls.of_chains(
                scorers if scorer is None else [scorer], servable=servable, cacheable=cacheable, **rest
            )
        if servable or cacheable or scorers is not None:
            raise InvalidInputError(
                f"mode={mode!r} searches the schedules of one scorer. Give one, or leave the mode out to search several "
                "chains, or those that can be served or cached."
            )
        return cls.of("fastv" if scorer is None else scorer, kernel, mode=mode or "predictor", **rest)

    @classmethod
    def of_chains(
        cls,
        scorers: Sequence[ChainLike] | None = None,
        *,
        servable: bool = False,
        cacheable: bool = False,
        effort: Effort | None = None,
        **rest: Any,
    ) -> Self:
        """A joint search among chains; default: all that are candidates. rest: the other fields."""
        if scorers is None:
            scorers = candidate_chains(servable=servable, cacheable=cacheable)
        chains = check_chains(scorers, servable=servable, cacheable=cacheable)
        effort = effort or Effort(batch_size=_JOINT_BATCH)
        return cls(
            chains[0],
            joint_kernel(servable=servable),
            mode="joint",
            chains=chains,
            effort=effort,
            servable=servable,
            cacheable=cacheable,
            **rest,
        )

    @property
    def row(self) -> SearchPreset:
        """The hyper-parameters; see `for_model`."""
        if self.preset is None:
            raise InvalidInputError("This search has no preset yet. Call for_model(model.config) first.")
        return self.preset

    def for_model(self, config: Any) -> SearchSpec:
        """The same search with the paper's preset for a model's config, unless it has one."""
        return self if self.preset is not None else replace(self, preset=presets.for_model(config, self.kernel.name))

    def relaxation(self) -> GaussianMask:
        """The gradient of the solver: projection takes ours (even), the Lagrangian the paper's."""
        return GaussianMask(self.row.sigma, self.row.temperature, even=self.solver == "projection")

    def to_dict(self) -> dict[str, Any]:
        """JSON-able; `from_dict` gives the search back."""
        return {
            "scorer": self.chain.to_dict(),
            "kernel": self.kernel.config(),
            "mode": self.mode,
            "solver": self.solver,
            "budgets": list(self.budgets),
            "cost": self.cost if isinstance(self.cost, str) else self.cost.to_dict(),
            "preset": None if self.preset is None else asdict(self.preset),
            "effort": asdict(self.effort),
            "seed": self.seed,
            **({"scorers": [str(chain) for chain in self.chains], "servable": self.servable} if self.chains else {}),
            **({"cacheable": True} if self.cacheable else {}),
            **({"whole": list(self.whole), "pixels": list(self.pixels)} if self.whole else {}),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """From `to_dict`; keys that a newer version added are ignored."""
        own = ("chain", "chains")
        given = {each.name: data[each.name] for each in fields(cls) if each.name in data and each.name not in own}
        readers: dict[str, Callable[[Any], Any]] = {
            "kernel": lambda value: kernels.get(**value),
            "cost": lambda value: value if isinstance(value, str) else costs.from_dict(value),
            "preset": lambda value: None if value is None else _known(SearchPreset(), value),
            "effort": Effort.from_dict,
            "budgets": tuple,
            "whole": tuple,
            "pixels": tuple,
        }
        read = {name: readers[name](value) if name in readers else value for name, value in given.items()}
        if data.get("mode") == "joint":
            left_out = ("mode", "kernel", "solver")
            return cls.of_chains(data["scorers"], **{k: v for k, v in read.items() if k not in left_out})
        return cls.of(data["scorer"], **read)


def _whole_budgets(budgets: Sequence[Any]) -> tuple[str, ...]:
    """Budgets of the whole prefill as they are written; empty where they are of the language model, and never both."""
    found = [Budget.of(budget) for budget in budgets]
    kinds = {budget.kind == "prefill" for budget in found}
    if len(kinds) > 1:
        raise InvalidInputError(
            f"The budgets {', '.join(map(str, found))} were given. Give all of the whole prefill (0.5p,0.4p), or none."
        )
    return tuple(map(str, found)) if kinds == {True} else ()


def _choose_solver(mode: str, solver: str | None) -> str:
    """The solver of a mode, its default if none is given; an error lists what there is."""
    if mode not in SOLVERS:
        raise InvalidInputError(
            f"mode={mode!r} was given. It is one of {', '.join(SOLVERS)}.{did_you_mean(mode, SOLVERS)}"
        )
    if solver is not None and solver not in SOLVERS[mode]:
        raise InvalidInputError(
            f"solver={solver!r} was given. Mode {mode!r} has {', '.join(SOLVERS[mode])}."
            f"{did_you_mean(solver, SOLVERS[mode])}"
        )
    return solver or SOLVERS[mode][0]


def _known(default: Any, data: Mapping[str, Any]) -> Any:
    """A settings object with the fields that `data` has; lists, as JSON has them, become tuples again."""
    changes = {}
    for each in fields(default):
        if each.name in data and each.default is not MISSING:
            value = data[each.name]
            changes[each.name] = tuple(value) if isinstance(value, list) else value
        elif each.name in data and is_dataclass(getattr(default, each.name)):
            changes[each.name] = _known(getattr(default, each.name), data[each.name])
    return replace(default, **changes)
