"""The kinds of planner that a `PrunerSpec` may have, by name: from a spec and a model to a chain and a planner.

Another kind is one function, registered by `@PLANNERS.register(name=...)` or by an entry point of the group
`vispco.planners`. It may choose the chain by the budget.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import torch

from vispco import cost as costs
from vispco import kernels
from vispco.core.errors import InvalidInputError, VispcoError
from vispco.core.registry import Registry
from vispco.core.runs import files
from vispco.core.runs.files import DamagedFileError
from vispco.core.schedule import Schedule, whole_cells
from vispco.core.weights import check_weights, hide_weight_bars
from vispco.cost import Budget, Cost, Workload, schedule_for_budget
from vispco.engine import unwrap
from vispco.engine.plan import Planner
from vispco.families import family_of
from vispco.kernels import Kernel
from vispco.pruner.budget_planner import BudgetPlanner, PredictedShape, Shape, deployed_gamma, static_shape
from vispco.pruner.joint_planner import JointMeasuredPlanner, JointPlanner
from vispco.pruner.joint_predictor import JointPredictor
from vispco.pruner.mean_budget import MeanController
from vispco.pruner.measured_planner import MeasuredPlanner
from vispco.pruner.picture_setting import PictureSetting
from vispco.pruner.predictor import Predictor
from vispco.pruner.pruner_spec import PrunerSpec, is_pruner
from vispco.pruner.search_files import PREDICTOR, FoundShape
from vispco.pruner.whole_planner import WholePlanner
from vispco.scorers import Chain
from vispco.scorers.cost import workload_under

Plan: TypeAlias = tuple[Chain, Schedule | Planner]
BuildPlanner: TypeAlias = Callable[[PrunerSpec, Any], Plan]
"""(spec, model) -> what runs at the spec's budget. The model is None where the user has not given it yet."""

PLANNERS: Registry[BuildPlanner] = Registry("kind of planner", "vispco.planners")
_MIDDLE = 0.5  # which shape is looked at first, for a budget that says nothing of a fraction
_RESTORE = "Save the pruner again from its run."
FORMS = (
    "full, single:LAYER:KEEP, stages:LAYER=KEEP,LAYER=KEEP,..., withdraw:LAYER, tower:BLOCK=KEEP,... alone or before one of them "
    "(tower:4=0.5+single:2:0.3), or a JSON file of a schedule"
)
TOWER = "tower:"
# Where attention scorers drop. Of layers 1, 2, 4 and 5 of tiny-qwen's 10 with fastv (24 test items a task, one run), 4 was
# the best at 30 % and 50 %, and second to 5 at 70 %. Not tried on other models.
_DEPTH = 0.4
_TYPICAL_GRID, _TYPICAL_TEXT = (
    (16, 16),
    60,
)  # cells of a picture, where pictures have sizes of their own, and text tokens


@PLANNERS.register(name="schedule")
def _build_schedule(spec: PrunerSpec, model: Any) -> Plan:
    """{"schedule": as `Schedule.to_dict` gives it, or text}. The budget says what it was made for and changes nothing."""
    text = spec.planner.get("schedule")
    if not isinstance(text, str):
        return _chain_of(spec), spec.schedule
    blocks = family_of(model).tower_shape(unwrap(model)).num_blocks if text.startswith(TOWER) else 0
    chain = _chain_of(spec)
    return chain, read_schedule(text, _num_layers(model), blocks, rebuilt=chain.rebuilds)


@PLANNERS.register(name="steps")
def _build_steps(spec: PrunerSpec, model: Any) -> Plan:
    """{}: one step for each scorer, without a search, as deep as `first_layers` says, with heights that meet the budget."""
    layers, chain = _num_layers(model), _chain_of(spec)
    bound = chain.for_model(unwrap(model))
    where = first_layers(bound, layers)
    kernel: Any = kernels.get("steps", steps=len(where), earliest_layer=bound.earliest_layer)
    heights = [0.5**step for step in range(1, len(where) + 1)]
    params = kernel.initial(layers, positions=[layer - 0.5 for layer in where], heights=heights)
    budget, cost = _hard(_budget(spec)), costs.get("exact", model.config)
    tower = _tower_steps(model, bound, budget, cost)
    return chain, _shape_planner(budget, lambda _: static_shape(params), kernel, cost, bound, tower=tower)


@PLANNERS.register(name="published")
def _build_published(spec: PrunerSpec, model: Any) -> Plan:
    """{"method": 'sparsevlm:64'}: a published method as its paper sets it, or scaled to the budget."""
    from vispco.pruner.presets.planner import plan_method  # noqa: PLC0415 - only where a method is named

    _num_layers(model)  # says that it is missing
    return plan_method(str(spec.planner.get("method")), model, None if spec.budget is None else _budget(spec))


@PLANNERS.register(name="shapes")
def _build_shapes(spec: PrunerSpec, model: Any) -> Plan:  # noqa: ARG001
    """{"kernel": ..., "shapes": [...]}: the shape of the nearest budget that was searched, moved to this one.

    A shape may have a "chain" and a "kernel" of its own; without them it has those of the spec.
    """
    budget = _budget(spec)
    chain, kernel, shape = _nearest_shape(spec, budget.amount if budget.is_relative else _MIDDLE)

    def static(fraction: Budget) -> Shape:
        near = _nearest_shape(spec, fraction.amount)
        return static_shape((near[2] if near[1] == kernel and str(near[0]) == str(chain) else shape).params)

    return chain, _shape_planner(budget, static, kernel, cost_of(spec), chain)


@PLANNERS.register(name="predictor")
def _build_predictor(spec: PrunerSpec, model: Any) -> Plan:  # noqa: ARG001
    """{"folder": where it lies, relative to the spec's}: a shape of each sample's own."""
    predictor = load_predictor(spec)
    chain, cost = Chain.of(predictor.config.scorer), predictor.config.make_cost()
    return chain, _shape_planner(_budget(spec), partial(PredictedShape, predictor), predictor.kernel, cost, chain)


def _shape_planner(
    budget: Budget,
    make_shape: Callable[[Budget], Shape],
    kernel: Kernel,
    cost: Cost,
    chain: Chain,
    *,
    tower: tuple[float, ...] | None = None,
) -> Planner:
    """make_shape: for a fraction of the FLOPs, which one of time or bytes comes to. tower: see `Schedule.tower`."""
    if _hard(budget).kind in ("flops", "prefill"):
        return BudgetPlanner(make_shape(budget), kernel, budget, cost, chain=chain, tower=tower)
    return MeasuredPlanner(budget, make_shape, kernel, cost.dimensions, chain)


@PLANNERS.register(name="joint")
def _build_joint(spec: PrunerSpec, model: Any) -> Plan:  # noqa: ARG001
    """{"folder": of the predictor, "controller": 'none' or its state, of a mean budget}: chain and shape of each sample's own."""
    budget, predictor = _budget(spec), load_predictor(spec)
    if budget.kind not in ("flops", "prefill"):
        measured = JointMeasuredPlanner(predictor, _hard(budget))
        return measured.chain, measured
    if budget.kind == "prefill":
        _hard(budget)
    planner = JointPlanner(predictor, budget, MeanController.of(budget, spec.planner.get("controller")))
    return planner.chain, planner


@PLANNERS.register(name="whole")
def _build_whole(spec: PrunerSpec, model: Any) -> Plan:  # noqa: ARG001
    """{"folder": where the predictor lies, "setting": of pictures, "shares": see `WholePlanner`, "controller"}: for the whole prefill."""
    budget, setting = _budget(spec), PictureSetting.from_dict(spec.planner["setting"])
    controller = MeanController.of(budget, spec.planner.get("controller"))
    planner = WholePlanner(load_predictor(spec), budget, setting, spec.planner["shares"], controller)
    return planner.chain, planner


def read_schedule(text: str, num_layers: int, num_blocks: int = 0, *, rebuilt: bool = False) -> Schedule:
    """A schedule as a person types it, or a file of one. num_blocks: of the vision tower. rebuilt: see `Schedule`."""
    kind, _, rest = text.partition(":")
    try:
        if text.startswith(TOWER):
            inside, _, behind = rest.partition("+")
            stages = {int(block): float(keep) for block, keep in (part.split("=") for part in inside.split(","))}
            return read_schedule(behind or "full", num_layers).with_tower(stages, num_blocks, rebuilt=rebuilt)
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
    if is_pruner(files.read_json(text, what="schedule", remedy=f"Give {FORMS}.")):
        raise InvalidInputError(f"{text} is a pruner, with a scorer of its own. Give it as --pruner {text}.")
    found = Schedule.load(text)
    if found.num_layers != num_layers:
        raise InvalidInputError(
            f"The schedule in {text} is for {found.num_layers} layers, but the model has {num_layers}."
        )
    return found


def _tower_steps(model: Any, chain: Chain, budget: Budget, cost: Cost) -> tuple[float, ...] | None:
    """One step for each scorer of the chain inside the vision tower, down to a retention; None if it has none.

    The retention is the least, in steps of 0.05, with which a typical prompt could still spend its budget if no more tokens left
    in the language model, and one step more; of budgets that do not count the tower, at least a half.
    """
    if not chain.tower:
        return None
    if budget.kind not in ("flops", "prefill"):
        raise InvalidInputError(
            f"The budget {budget} was given to a chain with a scorer inside the vision tower, which is not measured cut. Give 0.4p, "
            "of the whole prefill's FLOPs, or a chain of the language model."
        )
    shape = family_of(unwrap(model)).tower_shape(unwrap(model))
    picture = ((1, *(shape.tile or _TYPICAL_GRID)),)
    shape = replace(shape, projects_all=True) if chain.rebuilds else shape
    cells, places = picture[0][1] * picture[0][2], [block for block, _ in chain.tower]
    prompt = Workload(_TYPICAL_TEXT, cells, "entry", 0)

    def steps(keep: float) -> tuple[float, ...]:
        stages = {block: keep ** ((number + 1) / len(places)) for number, block in enumerate(places)}
        return Schedule.stages(stages, shape.num_blocks, "Block").retention  # type: ignore[return-value]

    def spent(keep: float) -> int:
        counts = whole_cells(steps(keep), cells)
        enter = cells if chain.rebuilds else counts[-1]
        layers = int(cost.price(torch.full((cost.num_layers,), enter), prompt))
        return layers + (shape.flops(picture, counts) if budget.kind == "prefill" else 0)

    tried = [percent / 100 for percent in range(25 if budget.kind == "prefill" else 50, 100, 5)]
    kept = next((keep for keep in tried if spent(keep) >= budget.amount * spent(1.0)), 1.0)
    return steps(min(kept + 0.05, 1.0))


def first_layers(chain: Chain, num_layers: int) -> list[int]:
    """The layer at which each scorer of a chain drops: its own where one was given, else 0, or 0.4 of the depth.

    A scorer that can choose before the language model does so; one that reads attention is better asked later.
    """
    usual = round(_DEPTH * num_layers)
    found: list[int] = []
    for layer, scorer in chain.stages:
        implied = layer == 0 or layer > scorer.earliest_layer + len(found)
        wanted = layer if implied else max(layer, usual)
        lowest = found[-1] + 1 if found else layer
        found.append(min(max(wanted, lowest), num_layers - 1))
    return found


def static_schedule(spec: PrunerSpec, budget: float, num_text: int, num_visual: int) -> tuple[Chain, Schedule]:
    """The shape of the nearest budget that was searched, as one schedule for samples of one size."""
    chain, kernel, shape = _nearest_shape(spec, budget)
    cost = cost_of(spec)
    size = workload_under(chain, cost.dimensions, num_text, num_visual)
    gamma = deployed_gamma(kernel)
    return chain, schedule_for_budget(kernel, shape.params, budget, size, cost, gamma=gamma, fill=False)


def _num_layers(model: Any) -> int:
    if model is None:
        raise InvalidInputError("This pruner depends on the model's layers. Resolve it with the model.")
    return len(family_of(model).layers(model))


def _chain_of(spec: PrunerSpec) -> Chain:
    if spec.chain is None:
        raise InvalidInputError(f"This pruner plans by {spec.kind} and has no scorers. Give it a chain, such as fastv.")
    return spec.chain


def _budget(spec: PrunerSpec) -> Budget:
    budget = spec.at(None).budget  # says what to give
    return Budget.of(1.0 if budget is None else budget)


def _hard(budget: Budget) -> Budget:
    """A budget that holds for every call; means are refused."""
    if budget.is_mean:
        raise InvalidInputError(
            f"The budget {budget} was given. A mean with a cap is of FLOPs (mean:0.2,max:0.5), for what a joint search found "
            "(--pruner)."
        )
    return budget


def _nearest_shape(spec: PrunerSpec, budget: float) -> tuple[Chain, Kernel, FoundShape]:
    """Of the shapes that were found, the one whose budget is nearest, with its chain and kernel."""
    shapes = spec.planner.get("shapes") or ()
    if not shapes:
        raise InvalidInputError(
            "There is no static shape in it. Search with mode='static' or 'line', or give a budget to Pruner.from_pretrained."
        )
    entry: Mapping[str, Any] = min(shapes, key=lambda each: abs(each["budget"] - budget))
    chain = Chain.of(entry["chain"]) if entry.get("chain") else _chain_of(spec)
    kernel = kernels.get(**(entry.get("kernel") or spec.planner["kernel"]))
    return chain, kernel, FoundShape.from_dict(dict(entry))


def cost_of(spec: PrunerSpec) -> Cost:
    """The cost that its budgets are measured in."""
    if spec.cost is None:
        raise InvalidInputError(
            "This pruner has no cost, so a budget means nothing to it. Write it again from its run."
        )
    return costs.from_dict(spec.cost)


def load_predictor(spec: PrunerSpec) -> Any:
    """The predictor that lies beside a config, ready to be used: of the class that its kind of planner has.

    Refused by name: a folder that is not beside the config, and files that are not those that were saved with it.
    """
    made = Predictor if spec.kind == "predictor" else JointPredictor
    folder = spec.folder
    place = folder / str(spec.planner.get("folder", PREDICTOR))
    if not place.is_dir() or not place.resolve().is_relative_to(folder.resolve()):
        raise DamagedFileError(f"The predictor of this pruner is not in {folder}: {place} is missing. {_RESTORE}")
    for name, expected in (spec.planner.get("checksums") or {}).items():
        if not (place / name).is_file() or files.digest_file(place / name) != expected:
            raise DamagedFileError(f"{place / name} is damaged, or of another pruner: its checksum differs. {_RESTORE}")
    check_weights(place)
    try:
        model, found = made.from_pretrained(place, use_safetensors=True, output_loading_info=True)
    except (OSError, ValueError, RuntimeError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
        if isinstance(error, VispcoError):
            raise
        reason = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise DamagedFileError(f"The predictor in {place} cannot be loaded: {reason.strip()} {_RESTORE}") from error
    wrong = sorted(str(key) for kind in ("missing_keys", "unexpected_keys") for key in found.get(kind) or ())
    if wrong:
        raise DamagedFileError(f"The weights in {place} do not fit its config.json: {wrong[0]}. {_RESTORE}")
    return model.eval()


def save_predictor(spec: PrunerSpec, folder: Path) -> dict[str, Any]:
    """Write the predictor of a spec into the folder of another; what the planner of that one says of it."""
    predictor = load_predictor(spec)
    with hide_weight_bars():
        predictor.save_pretrained(folder / PREDICTOR)
    written = [file.name for file in (folder / PREDICTOR).iterdir() if file.suffix in (".json", ".safetensors")]
    return {"folder": PREDICTOR, "checksums": files.digest_files(folder / PREDICTOR, sorted(written))}
