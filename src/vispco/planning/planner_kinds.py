"""The kinds of planner that a `PrunerConfig` may have, by name: from data and a budget to a chain and a planner.

Another kind is one function, registered by `@PLANNERS.register(name=...)` or by an entry point of the group
`vispco.planners`. It may choose the chain by the budget.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from torch import Tensor

from vispco import cost as costs
from vispco import kernels
from vispco.cost import Budget, Cost
from vispco.engine.plan import Planner, TokenPlan
from vispco.errors import InvalidInputError, VispcoError
from vispco.files import DamagedFileError, digest_file
from vispco.kernels import Kernel
from vispco.layout import TokenLayout
from vispco.planning.found_shape import FoundShape
from vispco.planning.joint_measured import JointMeasuredPlanner
from vispco.planning.joint_planner import JointPlanner
from vispco.planning.joint_predictor import JointPredictor
from vispco.planning.mean_controller import MeanController
from vispco.planning.measured_planner import MeasuredPlanner, Priced
from vispco.planning.planner import BudgetPlanner, Shape, predicted_shape, static_shape
from vispco.planning.predictor import Predictor
from vispco.planning.pruner_config import PrunerConfig
from vispco.registry import Registry
from vispco.schedule import Schedule
from vispco.scorers import Chain
from vispco.weights import check_weights

BuildPlanner: TypeAlias = Callable[[PrunerConfig, Budget | None, Path], tuple[Chain, Planner]]
"""(config, budget, the folder of the config) -> what runs at this budget. Only a fixed schedule may get no budget."""

PLANNERS: Registry[BuildPlanner] = Registry("kind of planner", "vispco.planners")
MIDDLE = 0.5  # which shape is looked at first, for a budget that says nothing of a fraction
RESTORE = "Save the pruner again from its run."
PREDICTOR = "predictor"  # the folder of a predictor, beside the config


@PLANNERS.register(name="schedule")
def build_schedule(config: PrunerConfig, budget: Budget | None, folder: Path) -> tuple[Chain, Planner]:  # noqa: ARG001
    """{"schedule": as `Schedule.to_dict` gives it}. The budget says what it was made for and changes nothing."""
    return config.chain, SchedulePlanner(config.schedule)


@PLANNERS.register(name="shapes")
def build_shapes(config: PrunerConfig, budget: Budget | None, folder: Path) -> tuple[Chain, Planner]:  # noqa: ARG001
    """{"kernel": ..., "shapes": [...]}: the shape of the nearest budget that was searched, moved to this one.

    A shape may have a "chain" and a "kernel" of its own; without them it has those of the config.
    """
    cost = cost_of(config)
    if budget is not None and budget.kind != "flops":
        chain, kernel, shape = nearest_shape(config, budget.amount if budget.is_relative else MIDDLE)

        def static(fraction: float) -> Shape:
            near = nearest_shape(config, fraction)
            return static_shape((near[2] if near[1] == kernel and str(near[0]) == str(chain) else shape).params)

        priced = Priced(kernel, cost.dimensions, chain)
        return chain, MeasuredPlanner(hard(budget), static, priced)
    fraction = fraction_of(budget)
    chain, kernel, shape = nearest_shape(config, fraction)
    return chain, BudgetPlanner(static_shape(shape.params), kernel, fraction, cost, chain=chain)


@PLANNERS.register(name="predictor")
def build_predictor(config: PrunerConfig, budget: Budget | None, folder: Path) -> tuple[Chain, Planner]:
    """{"folder": where it lies, relative to the config}: a shape of each sample's own."""
    predictor = load_predictor(config, folder)
    chain, cost = Chain.of(predictor.config.scorer), predictor.config.make_cost()
    if budget is not None and budget.kind != "flops":
        priced = Priced(predictor.kernel, cost.dimensions, chain)
        return chain, MeasuredPlanner(hard(budget), lambda fraction: predicted_shape(predictor, fraction), priced)
    fraction = fraction_of(budget)
    shape = predicted_shape(predictor, fraction)
    return chain, BudgetPlanner(shape, predictor.kernel, fraction, cost, chain=chain)


@PLANNERS.register(name="joint")
def build_joint(config: PrunerConfig, budget: Budget | None, folder: Path) -> tuple[Chain, Planner]:
    """{"folder": where the predictor lies}: a configuration (a chain and a shape) of each sample's own.

    {"controller": "none", or its state}: of a mean budget; see `vispco.planning.mean_controller`.
    """
    if budget is None:
        fraction_of(budget)  # says what to give
    predictor = load_predictor(config, folder)
    if budget is not None and budget.kind != "flops":
        measured = JointMeasuredPlanner(predictor, hard(budget))
        return measured.chain, measured
    state, controller = config.controller, None
    if budget is not None and budget.is_mean and state != "none":
        controller = MeanController.of(budget.amount, state if isinstance(state, Mapping) else None)
    planner = JointPlanner(predictor, budget or 1.0, controller)
    return planner.chain, planner


class SchedulePlanner:
    """One schedule as a planner."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule

    def __call__(self, layout: TokenLayout, embeddings: Tensor) -> TokenPlan:  # noqa: ARG002
        return TokenPlan(self.schedule.counts(layout.num_visual))


def hard(budget: Budget) -> Budget:
    """A budget of time or bytes that holds for every call; means of them are refused."""
    if budget.is_mean:
        raise InvalidInputError(f"The budget {budget} was given. A mean with a cap is of FLOPs: mean:0.2,max:0.5.")
    return budget


def fraction_of(budget: Budget | None) -> float:
    """The budget as a fraction of the cost of the unpruned model."""
    if budget is None:
        raise InvalidInputError("This pruner works at any budget, and none was given. Give budget=0.5 (--budget 0.5).")
    return budget.fraction


def nearest_shape(config: PrunerConfig, budget: float) -> tuple[Chain, Kernel, FoundShape]:
    """Of the shapes that were found, the one whose budget is nearest, with its chain and kernel."""
    shapes = config.planner.get("shapes") or ()
    if not shapes:
        raise InvalidInputError(
            "There is no static shape in it. Search with mode='static' or 'line', or give a budget to Pruner.from_pretrained."
        )
    entry: Mapping[str, Any] = min(shapes, key=lambda each: abs(each["budget"] - budget))
    chain = Chain.of(entry["chain"]) if entry.get("chain") else config.chain
    kernel = kernels.get(**(entry.get("kernel") or config.planner["kernel"]))
    return chain, kernel, FoundShape.from_dict(dict(entry))


def cost_of(config: PrunerConfig) -> Cost:
    """The cost that its budgets are measured in."""
    if config.cost is None:
        raise InvalidInputError(
            "This pruner has no cost, so a budget means nothing to it. Write it again from its run."
        )
    return costs.from_dict(config.cost)


def load_predictor(config: PrunerConfig, folder: Path) -> Any:
    """The predictor that lies beside a config, ready to be used: of the class that its kind of planner has.

    Refused by name: a folder that is not beside the config, and files that are not those that were saved with it.
    """
    made = JointPredictor if config.kind == "joint" else Predictor
    place = folder / str(config.planner.get("folder", PREDICTOR))
    if not place.is_dir() or not place.resolve().is_relative_to(folder.resolve()):
        raise DamagedFileError(f"The predictor of this pruner is not in {folder}: {place} is missing. {RESTORE}")
    for name, expected in (config.planner.get("checksums") or {}).items():
        if not (place / name).is_file() or digest_file(place / name) != expected:
            raise DamagedFileError(f"{place / name} is damaged, or of another pruner: its checksum differs. {RESTORE}")
    check_weights(place)
    try:
        model, found = made.from_pretrained(place, use_safetensors=True, output_loading_info=True)
    except (OSError, ValueError, RuntimeError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
        if isinstance(error, VispcoError):
            raise
        reason = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise DamagedFileError(f"The predictor in {place} cannot be loaded: {reason.strip()} {RESTORE}") from error
    wrong = sorted(str(key) for kind in ("missing_keys", "unexpected_keys") for key in found.get(kind) or ())
    if wrong:
        raise DamagedFileError(f"The weights in {place} do not fit its config.json: {wrong[0]}. {RESTORE}")
    return model.eval()
