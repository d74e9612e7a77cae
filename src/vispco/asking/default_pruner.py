"""What prunes where nobody has searched: any chain of scorers, at any budget, with a plain shape."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

from vispco import cost, kernels, presets
from vispco.cost import Budget
from vispco.engine import unwrap
from vispco.errors import InvalidInputError
from vispco.families import family_of
from vispco.planning.mean_controller import check_controller
from vispco.planning.planner import BudgetPlanner, static_shape
from vispco.pruner import Pruner
from vispco.scorers import Chain, ChainLike, check_allocation, check_compensation

METHOD = "fastv"
BUDGET = 0.5
# Where attention scorers drop. Of layers 1, 2, 4 and 5 of tiny-qwen's 10 with fastv (24 test items a task, one run), 4 was
# the best at 30 % and 50 %, and second to 5 at 70 %. Not tried on other models.
DEPTH = 0.4


@dataclass(frozen=True, kw_only=True)
class PrunerChoice:
    """How a model is pruned: what a search found, or a method with a plain shape; at a budget.

    run: the folder of a search, a saved pruner or a saved predictor. method: a published one ('pyramiddrop',
    'sparsevlm:64'), scaled to the budget, or any scorer or chain ('divprune+fastv') with a plain shape.
    budget: a fraction of each sample's unpruned language-model FLOPs; with a run, any budget that its planner takes, such as
    'mean:0.2,max:0.5', whose mean a `controller` keeps ('none' for none). allocation: how tokens are divided over the pictures of
    a prompt, compensate: how much attention is given back to tokens that are left; None leaves it to the run or the method.
    """

    run: str | None = None
    method: str | None = None
    budget: float | str = BUDGET
    allocation: str | None = None
    compensate: float | None = None
    controller: str | None = None

    def __post_init__(self) -> None:
        if self.run is not None and self.method is not None:
            raise InvalidInputError(
                f"A search's folder ({self.run}) and a method ({self.method}) were both given. Keep one of them: the "
                "folder knows its method."
            )
        if self.run is None:
            check_budget(self.budget)
        else:
            Budget.of(self.budget)  # a wrong one is refused here
        if self.controller is not None:
            check_controller(self.controller)
        if self.allocation is not None:
            check_allocation(self.allocation)
        if self.compensate is not None:
            check_compensation(self.compensate)

    @property
    def title(self) -> str:
        return f"{self.run or self.method or METHOD} at {Budget.of(self.budget).label}"

    def at(self, budget: float | str) -> Self:
        """The same at another budget."""
        return replace(self, budget=budget)

    def pruner(self, model: Any, *, record: bool = False) -> Pruner:
        """A new pruner for this model."""
        options: dict[str, Any] = {"record": record, "allocation": self.allocation, "compensate": self.compensate}
        if self.run is not None:
            return Pruner.from_pretrained(self.run, budget=self.budget, controller=self.controller, **options)
        budget = check_budget(self.budget)
        if self.method is not None and self.method.partition(":")[0].strip() in presets.PRESETS:
            return presets.pruner(self.method, model, budget=budget, **options)
        chain = Chain.of(self.method or METHOD)
        return Pruner(chain, default_planner(model, chain, budget), **options)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        return cls(**data)


def check_budget(budget: Any) -> float:
    """A budget as a number, or a sentence that says what one is."""
    try:
        number = float(budget)
    except (TypeError, ValueError):
        number = -1.0
    if isinstance(budget, bool) or not 0.0 < number <= 1.0:
        raise InvalidInputError(
            f"The budget {budget!r} was given. It is a fraction of the unpruned FLOPs: a number above 0, up to 1."
        )
    return number


def default_planner(model: Any, chain: ChainLike, budget: float) -> BudgetPlanner:
    """One step for each scorer of the chain, as deep as `first_layers` says, with heights that meet the budget."""
    chain = Chain.of(chain).for_model(unwrap(model))
    layers = len(family_of(model).layers(model))
    where = first_layers(chain, layers)
    kernel: Any = kernels.get("steps", steps=len(where), earliest_layer=chain.earliest_layer)
    heights = [0.5**step for step in range(1, len(where) + 1)]
    params = kernel.initial(layers, positions=[layer - 0.5 for layer in where], heights=heights)
    price = cost.get("exact", model.config)
    return BudgetPlanner(static_shape(params), kernel, budget, price, chain=chain)


def first_layers(chain: Chain, num_layers: int) -> list[int]:
    """Where each scorer of a chain drops: at its layer where one was given, else at 0, or at 0.4 of the depth.

    A scorer that can choose before the language model does so; one that reads attention is better asked later.
    """
    usual = round(DEPTH * num_layers)
    found: list[int] = []
    for layer, scorer in chain.stages:
        implied = layer == 0 or layer > scorer.earliest_layer + len(found)
        wanted = layer if implied else max(layer, usual)
        lowest = found[-1] + 1 if found else layer
        found.append(min(max(wanted, lowest), num_layers - 1))
    return found
